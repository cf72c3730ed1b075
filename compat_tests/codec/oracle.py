"""Kafka's own generated classes, in a JVM that answers line by line (compat_tests/java/CodecOracle.java)."""

import base64
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from harness.definitions import jars
from harness.definitions.model import Message
from harness.jars import jars_directory
from harness.java_programs import MissingToolchainError, java_command

SOURCE = Path(__file__).resolve().parent.parent / "java" / "CodecOracle.java"


class OracleError(Exception):
    """Kafka refused the question."""


def definitions(release: str) -> dict[tuple[str, object], Message]:
    """The release's own definitions, unstable versions included, by kind and API key (or name).

    From 4.0 on the class of a coordinator's key has one version, which is not on disk, and is left out.
    """
    home = jars_directory(release)
    messages: dict[str, Message] = {}
    for part in ("clients", "group-coordinator", "transaction-coordinator"):
        jar = home / f"kafka-{part}-{release}.jar"
        if jar.is_file():
            messages |= jars.read_definitions(jar, keep_unstable=True)
    if not release.startswith("3."):
        messages = {name: each for name, each in messages.items() if not _is_key(each)}
    return {identity(message): message for message in messages.values()}


def _is_key(message: Message) -> bool:
    return message.kind == "data" and message.name.endswith("Key")


def identity(message: Message) -> tuple[str, object]:
    """The part of the output that is the same in all releases."""
    return message.kind, message.name if message.api_key is None else message.api_key


def java_class(message: Message) -> str:
    """The full name of the class that Kafka generates."""
    if message.name.startswith("TransactionLog"):
        return f"org.apache.kafka.coordinator.transaction.generated.{message.name}"
    if message.kind in ("request", "response", "header"):
        return f"org.apache.kafka.common.message.{message.name}Data"
    if message.name.endswith(("Key", "Value")):
        return f"org.apache.kafka.coordinator.group.generated.{message.name}"
    return f"org.apache.kafka.common.message.{message.name}"


def oracle_command(source: Path, release: str) -> list[str]:
    """The command of one of compat_tests/java, compiled against a release. Skips where that can't be."""
    try:
        return java_command(source.stem, [source], release)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))


class Oracle:
    """One JVM with the classes of one release."""

    def __init__(self, release: str) -> None:
        self.release = release
        command = oracle_command(SOURCE, release)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _ask(self, question: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        verdict, _, answer = self._process.stdout.readline().rstrip("\n").partition(" ")
        if verdict != "ok":
            raise OracleError(f"{answer} ({question[:2000]})")
        return answer

    def encode(self, message: Message, version: int, json: str) -> bytes:
        """The bytes of a message given as JSON."""
        return base64.b64decode(self._ask(f"encode {java_class(message)} {version} {json}"))

    def decode(self, message: Message, version: int, data: bytes) -> str:
        """The JSON of a message's bytes."""
        return self._ask(f"decode {java_class(message)} {version} {base64.b64encode(data).decode()}")

    def again(self, message: Message, version: int, data: bytes) -> bytes:
        """Decoded and encoded again."""
        return base64.b64decode(self._ask(f"again {java_class(message)} {version} {base64.b64encode(data).decode()}"))
