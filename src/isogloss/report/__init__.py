"""Reports of runs: the verdict in words, figures, and one page that opens offline.

Nothing is drawn or rendered at import: matplotlib, Pillow and Jinja are imported inside the functions that use them,
so a machine without them can still import this package and read a verdict.
"""

from isogloss.report.curves import View
from isogloss.report.page import VIEWS, can_draw, verdict, write_figures, write_page

__all__ = ["VIEWS", "View", "can_draw", "verdict", "write_figures", "write_page"]
