"""Ends the brokers of a test run that was killed, and removes their temporary directories.

The keeper is a separate process, which gets each broker and directory on its input. The end of its input is the end of
the run: the keeper then ends the brokers and removes the directories that the run has left.
"""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from typing import IO


class Keeper:
    """The way to this run's keeper, which starts with the first thing to keep."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", __file__]
        # The keeper is not in this session: the end of the run's process group must not end it.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
        )

    def note(self, kind: str, what: object) -> None:
        """Register a process or a directory that has to end with this run."""
        self._say("+", kind, what)

    def forget(self, kind: str, what: object) -> None:
        """Remove a process or a directory that has ended."""
        self._say("-", kind, what)

    def _say(self, sign: str, kind: str, what: object) -> None:
        pipe = self.process.stdin
        assert pipe is not None
        with suppress(BrokenPipeError):  # a keeper that somebody killed: only for a run that is killed too it matters
            pipe.write(f"{sign}{kind} {what}\n")
            pipe.flush()


@cache
def keeper() -> Keeper:
    """The keeper of this process."""
    return Keeper()


def keep(lines: IO[str]) -> None:
    """Reads what there is until the run ends, then ends what is left, processes first."""
    noted: dict[str, None] = {}
    for line in lines:
        sign, what = line[0], line[1:].rstrip("\n")
        if sign == "+":
            noted[what] = None
        else:
            noted.pop(what, None)
    for kind in ("process", "directory"):
        for what in noted:
            name, _, value = what.partition(" ")
            if name == kind == "process":
                with suppress(ProcessLookupError):
                    os.kill(int(value), signal.SIGKILL)
            elif name == kind:
                shutil.rmtree(value, ignore_errors=True)


if __name__ == "__main__":
    keep(sys.stdin)
