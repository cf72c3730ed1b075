"""`kafkapy mirror` in a process of its own."""

import os
from collections.abc import Sequence
from pathlib import Path

from harness.kafkapy_process import ROOT, kafkapy_command
from harness.process import ChildProcess


class MirrorProcess(ChildProcess):
    """A `kafkapy mirror` that begins when it is started; all its starts write to one log."""

    def __init__(self, source: str, target: str, directory: Path, words: Sequence[str]) -> None:
        super().__init__("mirror", directory)
        self._words = ["mirror", "--from", source, "--to", target, "--interval", "0.1", *words]
        self._from_byte = 0

    def command(self) -> list[str]:
        """The command line; what the log has until now is of earlier starts."""
        self._from_byte = self.log_path.stat().st_size
        return [*kafkapy_command(), *self._words]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def is_ready(self) -> bool:
        """A broker that is away ends it, so nothing is awaited."""
        return True

    @property
    def said(self) -> str:
        """The lines since its last start."""
        return self.log_path.read_bytes()[self._from_byte :].decode(errors="replace")
