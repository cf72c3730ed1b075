"""A fleet of consumers of the Java client, all in one process (``compat_tests/java/RollingConsumers.java``)."""

import queue
import subprocess
import threading
from collections.abc import Sequence
from typing import Final

from compat_tests.groups.fleet import TIMEOUT_S, Fleet
from harness.keeper import keeper

PATIENCE_S: Final = 0.05


class JavaFleet(Fleet):
    """See ``Fleet``."""

    def __init__(self, command: Sequence[str], bootstrap: str, topic: str, strategy: str, *, is_static: bool) -> None:
        super().__init__(topic)
        kind = "static" if is_static else "dynamic"
        self._process = subprocess.Popen(
            [*command, bootstrap, topic, strategy, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        keeper().note("process", self._process.pid)
        self._lines: queue.Queue[str] = queue.Queue()
        self._stopped: set[int] = set()
        self._thread = threading.Thread(target=self._read_lines, daemon=True)
        self._thread.start()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def start_consumer(self, member: int, protocol: str) -> None:
        self._say(f"start {member} {protocol}")

    def stop_consumer(self, member: int) -> None:
        self._stopped.discard(member)
        self._say(f"stop {member}")
        while member not in self._stopped:
            self._take(self._lines.get(timeout=TIMEOUT_S))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        keeper().forget("process", self._process.pid)
        self._thread.join()

    def poll(self) -> None:
        try:
            line = self._lines.get(timeout=PATIENCE_S)
            while True:
                self._take(line)
                line = self._lines.get_nowait()
        except queue.Empty:
            pass

    def _take(self, line: str) -> None:
        what, member, *words = line.split()
        if what == "read":
            self.was_read(int(member), int(words[0]))
        elif what == "given":
            self.given(int(member), map(int, words))
        elif what == "taken":
            self.taken(map(int, words))
        elif what == "lost":
            self.lost(map(int, words))
        elif what == "stopped":
            self._stopped.add(int(member))
        else:
            self.failures.append(line.strip())
