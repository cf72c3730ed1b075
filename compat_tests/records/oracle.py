"""Talks to RecordsOracle.java: Kafka 2.7.2's own record classes in one Java process."""

import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.jars import class_path
from tools.java import find_java

SOURCE = Path(__file__).with_name("RecordsOracle.java")


class RecordsOracle:
    """Compiled and started on entry; ``ask`` sends one line and returns the answer's tab-separated parts."""

    def __enter__(self) -> Self:
        java = find_java()
        jars = class_path("2.7.2")
        self._classes = tempfile.TemporaryDirectory()
        subprocess.run(
            [java.home / "bin" / "javac", "-nowarn", "-d", self._classes.name, "-cp", jars, SOURCE],
            check=True, capture_output=True,
        )  # fmt: skip
        self._process = subprocess.Popen(
            [*java.command, "-cp", f"{self._classes.name}:{jars}", "RecordsOracle"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._classes.cleanup()

    def ask(self, *words: object) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = " ".join(word.hex() if isinstance(word, bytes | bytearray) else str(word) for word in words)
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the oracle has ended"
        return answer.rstrip("\n").split("\t")
