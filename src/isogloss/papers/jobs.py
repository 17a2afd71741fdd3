"""Where a paper's recipe calls come from: jobs of any recipe."""

from isogloss.recipes.jobs import Job, run_job, run_jobs

__all__ = ["Job", "run_job", "run_jobs"]
