"""kafkapy as its users start it: the `kafkapy start` command in a process of its own."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.process import HOST, ChildProcess

ROOT = Path(__file__).resolve().parent.parent
TEST_SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "8"}


def kafkapy_command() -> list[str]:
    """The installed command, or the same entry point of the sources when it isn't installed."""
    script = Path(sys.executable).parent / "kafkapy"
    return [str(script)] if script.exists() else [sys.executable, "-c", "from kafkapy.cli.main import main; main()"]


class KafkapyProcess(ChildProcess):
    """One kafkapy broker; `config` are server.properties settings, `options` further options of `kafkapy start`."""

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None = None,
        directory: Path | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        super().__init__("kafkapy", directory, {**TEST_SETTINGS, **(config or {})})
        self.data = self.directory / "data"
        self.options = options

    def command(self) -> list[str]:
        settings = [f"{key}={value}" for key, value in self.overrides.items()]
        address = ["--port", str(self.port)]
        if self.host != HOST:
            address, settings = [], [f"listeners=PLAINTEXT://{self.bootstrap}", *settings]
        return [*kafkapy_command(), "start", "--data", str(self.data), *address, *self.options, *settings]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}
