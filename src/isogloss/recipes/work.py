"""One job in a process of its own: `python -m isogloss.recipes.work`, with the job as JSON on standard input."""

import json
import sys
from pathlib import Path

from isogloss.errors import InputError
from isogloss.recipes.jobs import Job, run_job


def main() -> None:
    """Run the job; a mistake is one sentence on standard error."""
    given = json.load(sys.stdin)
    try:
        run_job(Job(**{**given, "folder": Path(given["folder"]), "place": {}}))
    except InputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
