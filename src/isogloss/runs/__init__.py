"""Run folders and the one table."""

from isogloss.runs.run import Run, check_folder, read_facts, read_rows, start
from isogloss.runs.table import COLUMNS, frame, row

__all__ = ["COLUMNS", "Run", "check_folder", "frame", "read_facts", "read_rows", "row", "start"]
