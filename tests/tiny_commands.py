"""The command line in this process, or in one that is killed; and options as words of a command."""

import os
import signal
import subprocess
import sys

from isogloss import cli, report

KILLED = """
import os, signal, sys
from isogloss import cli, report
from isogloss.training import checkpoints

write = checkpoints.save_file

def dying(tensors, path):
    write(tensors, path)
    if "step-0000009" in str(path):
        os.kill(os.getpid(), signal.SIGKILL)

checkpoints.save_file = dying
report.can_draw = lambda: False
cli.main()
"""


def flags(options):
    """Options as words of a command: one that is None is left out, a list is given several times."""
    words = []
    for name, value in options.items():
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            words += [f"--{name.replace('_', '-')}", *([] if one is True else [str(one)])]
    return words


def drawing_command_line(monkeypatch, capsys):
    """A function that runs the command line in this process: (exit code, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["isogloss", *map(str, arguments)])
        capsys.readouterr()  # what a fixture printed, such as the progress of a model that is written
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def command_line(monkeypatch, capsys):
    """The same, quiet and without pages and figures, which have tests of their own."""
    monkeypatch.setattr(report, "can_draw", lambda: False)
    run = drawing_command_line(monkeypatch, capsys)
    return lambda *arguments: run(*arguments, "--quiet")


def run_and_kill(*arguments):
    """Run the command line in a process that is killed while it writes the checkpoint of step 9."""
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *map(str, arguments), "--quiet"],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, timeout=120,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def parse(words):
    """Parse what `isogloss` is followed by, without running it."""
    command, rest = cli.find_command(words)
    command.make_context(command.name, rest)


def way_of(table):
    """The mapping and the method of every row, in one text."""
    return (table["condition"] + " " + table["method"]).str.strip()
