"""Kafka Connect's main classes, each in a JVM of its own, as Kafka's scripts start them."""

from collections.abc import Mapping
from pathlib import Path

from harness.jars import CONNECT, JarsError, class_path
from harness.java import NoJavaError, find_java
from harness.java_programs import QUICK_START, QUIET, MissingToolchainError
from harness.process import ChildProcess
from harness.real_kafka import write_properties

BROKERS_DEFAULT = "-1"
REPLICAS = {
    f"{what}.replication.factor": BROKERS_DEFAULT
    for what in ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage", "status.storage",
                 "config.storage")
} | {"replication.factor": BROKERS_DEFAULT}  # fmt: skip


def connect_class_path(version: str) -> str:
    """The jars of a release; raises MissingToolchainError with what is missing."""
    try:
        find_java()
        return class_path(CONNECT.format(version))
    except (NoJavaError, JarsError) as missing:
        raise MissingToolchainError(f"Kafka Connect runs on Java alone, from its own jars: {missing}") from missing


class ConnectProcess(ChildProcess):
    """One of Connect's main classes with its `.properties` files; `port` is its REST interface's."""

    def __init__(
        self, version: str, main: str, files: Mapping[str, Mapping[str, str]], directory: Path | None = None
    ) -> None:
        self._class_path = connect_class_path(version)
        super().__init__(main.rpartition(".")[2].lower(), directory)
        self._main = f"org.apache.kafka.connect.{main}"
        self._files = files

    def command(self) -> list[str]:
        paths = [
            str(write_properties(self.directory / f"{name}.properties", content))
            for name, content in self._files.items()
        ]
        return [*find_java().command, "-Xmx256M", *QUICK_START, *QUIET, "-cp", self._class_path, self._main, *paths]

    def is_ready(self) -> bool:
        """There is no interface to ask: what it does is seen in the brokers."""
        return True
