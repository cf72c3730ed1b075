"""Runs a recipe of docs/original_clients.md and kills its own process, by SIGKILL, while the recipe works on a record.

Arguments: the file of the recipe, its own arguments as JSON, a file for what was done, the number of the record, and
whether to kill `before` or `after` the record is written into the file. Each run counts from 1; 0 kills never.
"""

import json
import os
import runpy
import signal
import sys
from pathlib import Path

from kafkapy.clients.original.streams import MessageAndMetadata
from kafkapy.records.record import Record


class Work:
    """Appends what was done to a file, until the process ends."""

    def __init__(self, path: Path, kill_at: int, when: str) -> None:
        self._file = path.open("ab", buffering=0)
        self._kill_at = kill_at
        self._when = when
        self._count = 0

    def __call__(self, record: MessageAndMetadata) -> None:
        self.do(record.message)

    def result_of(self, record: Record) -> str:
        """The work of the recipe that stores its results."""
        self.do(record.value or b"")
        return (record.value or b"").decode()

    def do(self, value: bytes) -> None:
        """One record."""
        self._count += 1
        self._die("before")
        self._file.write(value + b"\n")
        self._die("after")

    def _die(self, when: str) -> None:
        if self._count == self._kill_at and self._when == when:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    recipe, arguments, path, kill_at, when = sys.argv[1:]
    given = json.loads(arguments)
    work = Work(Path(path), int(kill_at), when)
    run = runpy.run_path(recipe)["run"]
    if "database" in given:
        run(given["bootstrap"], given["topic"], given["database"], work.result_of, max_wait_ms=300)
    else:
        run(given["properties"], given["topic"], work)


if __name__ == "__main__":
    main()
