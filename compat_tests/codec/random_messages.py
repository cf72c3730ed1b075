"""Random messages of any definition and version, and their JSON as Kafka spells it."""

import base64
import importlib
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from harness.definitions import files as definitions
from harness.definitions import names
from harness.definitions.model import Field, Message
from harness.definitions.names import class_names
from harness.definitions.selection import generated_modules
from kafkapy.protocol.primitives import Message as ProtocolMessage

_INTEGERS = {"int8": (1, True), "int16": (2, True), "uint16": (2, False), "int32": (4, True), "int64": (8, True)}
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def _integers(size: int, *, signed: bool) -> st.SearchStrategy[int]:
    bits = 8 * size
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)


_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    **{name: _integers(size, signed=signed) for name, (size, signed) in _INTEGERS.items()},
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": _TEXT | st.sampled_from(["", "a" * 127, "b" * 128, "ü" * 70]),
    "bytes": st.binary(max_size=16) | st.just(bytes(130)),
    "records": st.binary(max_size=16) | st.just(bytes(5000)),
    "uuid": st.uuids(allow_nil=True),
}


class Definitions:
    """The definitions of the generated messages, with their classes."""

    def __init__(self) -> None:
        generated = generated_modules(definitions.load_all())
        self.messages = {message.name: message for members in generated.values() for message in members}
        self._names: dict[str, dict[str, str]] = {}
        self._modules: dict[str, Any] = {}
        self._left_out: set[tuple[str, str]] = set()
        for module, members in generated.items():
            self._names |= class_names(members)
            for member in members:
                self._modules[member.name] = importlib.import_module(f"kafkapy.protocol.messages.{module}")

    def class_of(self, message: Message, struct: str | None = None) -> type[ProtocolMessage]:
        """The generated class of a message, or of one of its structs."""
        found: type[ProtocolMessage] = getattr(
            self._modules[message.name], self._names[message.name][struct or message.name]
        )
        return found

    def strategy(
        self, message: Message, version: int, *, unknown_tags: bool = True, known_to: Message | None = None
    ) -> st.SearchStrategy[Any]:
        """Messages that the version can carry, without the tagged fields that another release doesn't know."""
        self._left_out = unmatched_tags(message, known_to, version) if known_to else set()
        return self._struct(message, message.name, version, unknown_tags=unknown_tags)

    def _struct(self, message: Message, name: str, version: int, *, unknown_tags: bool) -> st.SearchStrategy[Any]:
        fields = [entry for entry in message.structs[name].fields if version in entry.versions]
        fields = [entry for entry in fields if (name, entry.name) not in self._left_out]
        values = {
            names.snake_case(entry.name): self._field(message, entry, version, unknown_tags=unknown_tags)
            for entry in fields
        }
        if version in message.flexible and unknown_tags:
            tags = st.lists(
                st.tuples(st.integers(40, 2**31 - 2), st.binary(max_size=5)), max_size=2, unique_by=lambda x: x[0]
            )
            values["unknown_tagged_fields"] = st.none() | tags.map(lambda found: sorted(found) or None)
        return st.builds(self.class_of(message, name), **values)

    def _field(self, message: Message, entry: Field, version: int, *, unknown_tags: bool) -> st.SearchStrategy[Any]:
        if entry.is_struct:
            one = self._struct(message, entry.element, version, unknown_tags=unknown_tags)
        else:
            one = _PRIMITIVES[entry.element]
        if entry.is_array:
            one = st.lists(one, max_size=2 if entry.is_struct else 4)
        nullable = version in entry.nullable
        absent = version in entry.tagged and entry.is_struct and not entry.is_array
        return st.none() | one if nullable or absent else one


def json_form(ours: Message, theirs: Message, message: ProtocolMessage, version: int) -> dict[str, Any]:
    """The JSON that the other release's converter reads; fields are matched by what is on the wire in this version."""
    return _json_struct(ours, ours.name, theirs, theirs.name, message, version)


def _json_struct(
    ours: Message, our_name: str, theirs: Message, their_name: str, message: ProtocolMessage, version: int
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for mine, other in _pairs(ours.structs[our_name].fields, theirs.structs[their_name].fields, version):
        value = getattr(message, names.snake_case(mine.name))
        if value is None and mine.absent_is_none and not mine.nullable:
            continue  # a tagged struct that isn't there
        one = _converter(ours, mine, theirs, other, version)
        if value is None:
            out[_camel_case(other.name)] = None
        else:
            out[_camel_case(other.name)] = [one(element) for element in value] if mine.is_array else one(value)
    return out


def _pairs(ours: list[Field], theirs: list[Field], version: int) -> list[tuple[Field, Field]]:
    plain = [
        [entry for entry in fields if version in entry.versions and version not in entry.tagged]
        for fields in (ours, theirs)
    ]
    tagged = [{entry.tag: entry for entry in fields if version in entry.tagged} for fields in (ours, theirs)]
    return [
        *zip(*plain, strict=True),
        *((tagged[0][tag], tagged[1][tag]) for tag in tagged[0].keys() & tagged[1].keys()),
    ]


def unmatched_tags(ours: Message, theirs: Message, version: int) -> set[tuple[str, str]]:
    """Our tagged fields (struct, field) that the other release doesn't know in this version."""
    found: set[tuple[str, str]] = set()

    def visit(our_name: str, their_name: str) -> None:
        mine, others = ours.structs[our_name].fields, theirs.structs[their_name].fields
        pairs = _pairs(mine, others, version)
        matched = {entry.name for entry, _ in pairs}
        found.update(
            (our_name, entry.name) for entry in mine if version in entry.versions and entry.name not in matched
        )
        for entry, other in pairs:
            if entry.is_struct:
                visit(entry.element, other.element)

    visit(ours.name, theirs.name)
    return found


def _converter(ours: Message, mine: Field, theirs: Message, other: Field, version: int) -> Callable[[Any], Any]:
    if mine.is_struct:
        return lambda value: _json_struct(ours, mine.element, theirs, other.element, value, version)
    if mine.element in ("bytes", "records"):
        return lambda value: {"base64": base64.b64encode(value).decode()}
    if mine.element == "uuid":
        return lambda value: base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return lambda value: value


def _camel_case(name: str) -> str:
    return name[0].lower() + name[1:]
