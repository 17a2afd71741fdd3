"""What a map or a training found, for people: the verdict in words, figures, and one page that opens offline.

Nothing is drawn or rendered at import: matplotlib, Pillow and Jinja are imported inside the functions that use them,
so a machine without them can still import this package and read a verdict.
"""

from isogloss.report.figures import write_figures
from isogloss.report.folder import parts
from isogloss.report.page import write_report
from isogloss.report.sweepverdict import sweep_verdict
from isogloss.report.verdict import verdict

__all__ = ["parts", "sweep_verdict", "verdict", "write_figures", "write_report"]
