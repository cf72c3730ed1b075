"""Talks to RecordsOracle.java: Kafka 2.7.2's own record classes in one Java process."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.java_programs import java_command

SOURCE = Path(__file__).with_name("RecordsOracle.java")


class RecordsOracle:
    """Compiled and started on entry, which may raise MissingToolchainError.

    ``ask`` sends one line and returns the answer's tab-separated parts.
    """

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            java_command("RecordsOracle", [SOURCE], "2.7.2"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def ask(self, *words: object) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = " ".join(word.hex() if isinstance(word, bytes | bytearray) else str(word) for word in words)
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the oracle has ended"
        return answer.rstrip("\n").split("\t")
