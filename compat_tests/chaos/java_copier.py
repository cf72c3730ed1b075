"""The copier of a round as a program of Apache Kafka's Java clients, in a process of its own (`java/Copier.java`)."""

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from harness.java_programs import java_command
from harness.keeper import keeper

SOURCE = Path(__file__).with_name("java") / "Copier.java"
VERSION = "2.7.2"
END_S = 30.0
COMMITTED = "committed"


class JavaCopier:
    """Copies `source` to `target` until `finish`; `next_offsets` are those of the newest committed transaction.

    `copied` is called with the `time.monotonic` at which a committed transaction had begun, `count` with each error.
    """

    is_stuck = False
    """The program ends after an error and begins again by itself."""

    def __init__(
        self,
        bootstrap: str,
        name: str,
        topics: tuple[str, str],
        copied: Callable[[float], object],
        count: Callable[[str], object],
    ) -> None:
        self.topic = topics[1]
        self.next_offsets: dict[int, int] = {}
        self.longest_s = 0.0
        self._copied, self._count = copied, count
        command = [*java_command("Copier", [SOURCE], VERSION), bootstrap, name, *topics]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        keeper().note("process", self._process.pid)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, *fields = line.split()
            if kind != COMMITTED:
                self._count(f"Java copier: {' '.join(fields)}")
                continue
            took_s = int(fields[0]) / 1000
            self.longest_s = max(self.longest_s, took_s)
            self.next_offsets |= {
                int(index): int(offset) for index, _, offset in (each.partition(":") for each in fields[1:])
            }
            self._copied(time.monotonic() - took_s)

    def step(self) -> None:
        """Its own process does all; raises AssertionError if that has ended."""
        code = self._process.poll()
        assert code is None, f"the Java copier ended with {code}"

    def finish(self) -> None:
        """Ends the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        keeper().forget("process", self._process.pid)
        self._thread.join(END_S)
