"""A plan: requests one after the other as plain JSON, for any broker.

What only a running broker knows stands in a plan by name: ``@producer:0`` is the producer id that was given out last,
``@producer:1`` the one before, so with ``@epoch``, ``@member``, ``@generation`` and ``@session``; any other ``@name``
is the plan's own topic, group or transactional id, which nobody else uses. Bytes are ``{"hex": …}``, records also
``{"batch": …}`` or ``{"odd": seed}``.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from compat_tests.codec.random_messages import Definitions
from harness.definitions import names
from harness.definitions.model import Field, Message
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.message import Message as ProtocolMessage

Json = Any


@dataclass
class Step:
    """One request; ``damage`` says what is done to its bytes, ``on`` which connection it goes over."""

    api: str
    version: int
    body: dict[str, Json]
    on: int = 0
    damage: dict[str, Json] | None = None

    @property
    def key(self) -> int:
        """The API key."""
        return ApiKey[self.api]


@dataclass
class Plan:
    """Topics, by their name without the ``@``, with partitions and settings; then the requests."""

    topics: dict[str, dict[str, Json]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How hypothesis prints it: the file has it in full."""
        printer.text(f"<a plan of {len(self.steps)} steps>")

    def write(self, path: Path) -> None:
        """One line for each step."""
        steps = ",\n  ".join(json.dumps(shortened(each)) for each in self.steps)
        path.write_text(f'{{"topics": {json.dumps(self.topics)},\n "steps": [\n  {steps}\n]}}\n')

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """The request that ``write`` wrote."""
        raw = json.loads(path.read_text())
        return cls(raw["topics"], [Step(**each) for each in raw["steps"]])


def shortened(step: Step) -> dict[str, Json]:
    """A step's JSON without what is usual."""
    raw = asdict(step)
    return {name: value for name, value in raw.items() if value is not None and (name, value) != ("on", 0)}


@cache
def definitions() -> Definitions:
    """The messages' definitions, read once."""
    return Definitions()


@cache
def request_definition(api_key: int) -> Message:
    """The definition of the API's request."""
    found = definitions().messages.values()
    return next(each for each in found if each.kind == "request" and each.api_key == api_key)


@cache
def fields_of(api_key: int, struct: str, version: int) -> tuple[tuple[str, Field], ...]:
    """The fields of one of a request's structs that the version has, with their names in Python."""
    fields = request_definition(api_key).structs[struct].fields
    return tuple((names.snake_case(each.name), each) for each in fields if version in each.versions)


class RequestBuilder:
    """Makes requests of JSON.

    ``resolve`` says what a name that begins with ``@``, or records in a dict, stand for, ``resolve_topic`` which id.
    """

    def __init__(self, resolve: Callable[[Any], Any], resolve_topic: Callable[[str], UUID]) -> None:
        self._resolve = resolve
        self._resolve_topic = resolve_topic

    def build(self, step: Step) -> ProtocolMessage:
        """The request; fields that the version does not have are left out."""
        return self._struct(step.key, request_definition(step.key).name, step.version, step.body)

    def _struct(self, key: int, struct: str, version: int, body: dict[str, Json]) -> ProtocolMessage:
        values = {
            name: self._value(key, entry, version, body[name])
            for name, entry in fields_of(key, struct, version)
            if name in body
        }
        return definitions().class_of(request_definition(key), struct)(**values)

    def _value(self, key: int, entry: Field, version: int, value: Json) -> Any:
        if isinstance(value, list):
            if entry.is_struct:
                return [self._struct(key, entry.element, version, each) for each in value]
            return [self._one(entry, each) for each in value]
        if entry.is_struct and isinstance(value, dict):
            return self._struct(key, entry.element, version, value)
        return self._one(entry, value)

    def _one(self, entry: Field, value: Json) -> Any:
        return self._resolve_topic(value) if entry.element == "uuid" else self._resolve(value)
