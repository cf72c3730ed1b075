"""kio's and kafka-python's codecs read what ours writes and write the same bytes, for the versions that they know."""

import importlib
import io
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import kafka.protocol
import pytest
from hypothesis import HealthCheck, given, settings
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import OutOfBoundValue

from compat_tests.codec.random_messages import Definitions
from harness.definitions.merge import KNOWN_CONFLICTS
from harness.definitions.model import Message
from harness.definitions.names import module_name
from kafkapy.protocol.primitives import encode

DEFINITIONS = Definitions()
EXAMPLES = 6

Again = Callable[[bytes], bytes]


def kio_codec(message: Message, version: int) -> Again | None:
    """Reads and writes again through kio; None where it doesn't know the message or version."""
    try:
        module = importlib.import_module(f"kio.schema.{module_name(message)}.v{version}.{message.kind}")
    except ModuleNotFoundError:
        return None
    entity = getattr(module, message.name)
    read, write = entity_reader(entity), entity_writer(entity)

    def again(data: bytes) -> bytes:
        value, size = read(memoryview(data), 0)
        assert size == len(data)
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    return again


def kafka_python_classes() -> dict[str, Any]:
    """kafka-python's message classes by name."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" in module.name or "generate" in module.name:
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.endswith(("Request", "Response")) and getattr(value, "API_KEY", None) is not None:
                found[name] = value
    return found


KAFKA_PYTHON = kafka_python_classes()


def kafka_python_codec(message: Message, version: int) -> Again | None:
    """Reads and writes again through kafka-python; None where it doesn't know the message or version."""
    codec = KAFKA_PYTHON.get(message.name)
    if codec is None or version > codec.max_version:
        return None

    def again(data: bytes) -> bytes:
        value = codec.decode(io.BytesIO(data), version=version)
        value._header = None  # its encode looks at the header even when none is asked for
        return bytes(value.encode(version=version))

    return again


def cases() -> Iterator[Message]:
    return (message for message in DEFINITIONS.messages.values() if message.kind in ("request", "response"))


# Values that a codec can't hold: kio keeps error codes, times and durations as types of their own.
REFUSALS = (ValueError, OverflowError, OutOfBoundValue)


@pytest.mark.slow
@pytest.mark.parametrize("codec", [kio_codec, kafka_python_codec], ids=["kio", "kafka-python"])
@pytest.mark.parametrize("message", list(cases()), ids=lambda message: message.name)
def test_same_bytes(message: Message, codec: Callable[[Message, int], Again | None]) -> None:
    for version in range(message.versions.low, message.versions.high + 1):
        again = codec(message, version)
        if again is not None and (message.name, version) not in KNOWN_CONFLICTS:
            check(message, version, again)


def check(message: Message, version: int, again: Again) -> None:
    agreed = 0

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(DEFINITIONS.strategy(message, version, unknown_tags=False))
    def same(value: Any) -> None:
        nonlocal agreed
        if message.name == "ApiVersionsResponse":
            value.error_code = 0  # with an error, kafka-python takes any version for version 0
        data = encode(value, version)
        try:
            theirs = again(data)
        except REFUSALS:
            return
        assert theirs == data
        agreed += 1

    same()
    assert agreed, f"version {version}: no example was accepted"


def test_both_codecs_know_most_messages() -> None:
    known = {
        name: sum(codec(message, message.versions.high) is not None for message in cases())
        for name, codec in (("kio", kio_codec), ("kafka-python", kafka_python_codec))
    }
    assert known["kio"] > 55
    assert known["kafka-python"] > 55
