"""Tasks: a head on the stack is trained in one language and tested in others; one file for each task.

`TASKS` contains every `Task` that a module of this folder defines, by its name.
"""

from importlib import import_module
from pkgutil import iter_modules

from isogloss.errors import require
from isogloss.tasks.task import Task

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
TASKS = {task.name: task for module in _MODULES for task in vars(module).values() if isinstance(task, Task)}


def find_task(name: str) -> Task:
    """Look up a task by its name.

    >>> find_task("nli").main
    'accuracy'
    """
    require(name in TASKS, f"--task {name!r} is not known; choose {', '.join(TASKS)}")
    return TASKS[name]
