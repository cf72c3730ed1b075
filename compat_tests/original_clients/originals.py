"""The high-level consumers of old releases, and the assignment that Kafka 0.8.2 computes, as programs to ask."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from compat_tests.clients.agent import Agent
from harness.jars import jars_directory
from harness.java_programs import MissingToolchainError, java_command

SOURCES = Path(__file__).resolve().parent / "java"
ASSIGNOR_VERSION = "0.8.2.2"
Received = tuple[str, int, int, str]
"""Topic, partition, offset, value."""


def _command(program: str, version: str) -> list[str]:
    jars = [
        str(jar) for part in ("core", "databind", "annotations")
        for jar in jars_directory("2.7.2").glob(f"jackson-{part}-*.jar")
    ]  # fmt: skip
    if not jars:
        raise MissingToolchainError("the jars of Kafka 2.7.2 are not here: run make jars")
    return java_command(program, [SOURCES / f"{program}.java"], version, more=":".join(jars))


class OriginalConsumers:
    """A Java process with consumers of one release; raises MissingToolchainError."""

    def __init__(self, version: str) -> None:
        self.agent = Agent(_command("OriginalConsumers", version))

    def join(self, settings: Mapping[str, str], streams: int = 1, **topics: str) -> "OriginalMember":
        """A consumer of ``topic``, ``white_list`` or ``black_list``."""
        number: int = self.agent.ask("join", settings=dict(settings), streams=streams, **topics)
        return OriginalMember(self.agent, number)


class OriginalMember:
    """A consumer that collects what it gets."""

    def __init__(self, agent: Agent, number: int) -> None:
        self._agent = agent
        self._number = number

    def poll(self) -> list[Received]:
        """The records since the last call."""
        return [(each[0], each[1], each[2], each[3]) for each in self._agent.ask("poll", member=self._number)]

    def commit(self) -> None:
        """``commitOffsets``."""
        self._agent.ask("commit", member=self._number)

    def leave(self) -> list[Received]:
        """``shutdown``; returns what came until then."""
        return [(each[0], each[1], each[2], each[3]) for each in self._agent.ask("leave", member=self._number)]


class OriginalClasses:
    """Kafka 0.8.2's own class, which reads the registrations in a ZooKeeper."""

    def __init__(self, zookeeper_connect: str) -> None:
        self.agent = Agent([*_command("OriginalClasses", ASSIGNOR_VERSION), zookeeper_connect])

    def partitions(self, keys: Sequence[str], count: int) -> list[tuple[int, int]]:
        """The partitions for texts as keys, and for their bytes in UTF-8."""
        return [(text, data) for text, data in self.agent.ask("partitions", keys=keys, count=count)]

    def owners(self, group: str, consumers: Iterable[str]) -> dict[tuple[str, int], str]:
        """The owner of each partition, by what each of the consumers computes for itself."""
        answer: list[Any] = self.agent.ask("assign", group=group, consumers=list(consumers))
        found = {(topic, partition): thread for topic, partition, thread in answer}
        assert len(found) == len(answer), "two consumers would own the same partition"
        return found
