"""Tasks: what a head on the stack is trained for in one language and tested on in others; one file each."""

from isogloss.errors import require
from isogloss.tasks.nli import NLI
from isogloss.tasks.parsing import PARSING
from isogloss.tasks.qa import QA
from isogloss.tasks.tagging import NER, POS
from isogloss.tasks.task import Task

__all__ = ["NER", "NLI", "PARSING", "POS", "QA", "TASKS", "Task", "find_task"]

TASKS: dict[str, Task] = {one.name: one for one in (NLI, POS, NER, PARSING, QA)}


def find_task(name: str) -> Task:
    """The task of this name.

    >>> find_task("nli").main
    'accuracy'
    """
    require(name in TASKS, f"--task {name!r} is not known; choose {', '.join(TASKS)}")
    return TASKS[name]
