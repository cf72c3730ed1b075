"""Message definitions as Python objects, with every version range closed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

FIXED_SIZE_LETTERS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
}
"""The fixed-size types and struct's letter for each."""


class Versions(NamedTuple):
    """A closed range; empty when ``low`` is above ``high``."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None, limit: int) -> Self:
        """Kafka's notation: ``3``, ``3-5``, ``3+`` (up to ``limit``) or ``none``."""
        if text is None or text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), limit)
        low, _, high = text.partition("-")
        return cls(int(low), min(int(high or low), limit))

    def text(self, limit: int) -> str:
        """The notation that `parse` reads."""
        if not self:
            return "none"
        if self.high == limit:
            return f"{self.low}+"
        return f"{self.low}-{self.high}" if self.low != self.high else f"{self.low}"

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def intersect(self, other: "Versions") -> "Versions":
        """The versions in both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Versions(low, high) if low <= high else NO_VERSIONS

    def union(self, other: "Versions") -> "Versions":
        """The versions in either; the two must touch."""
        if not self or not other:
            return self or other
        if max(self.low, other.low) > min(self.high, other.high) + 1:
            raise ValueError(f"{self} and {other} leave a gap")
        return Versions(min(self.low, other.low), max(self.high, other.high))


NO_VERSIONS = Versions(0, -1)


@dataclass(slots=True)
class Field:
    """One field of a struct."""

    name: str
    type: str  # int32, []int32, string, SomeStruct, []SomeStruct, …
    versions: Versions
    nullable: Versions = NO_VERSIONS
    tagged: Versions = NO_VERSIONS
    tag: int | None = None
    default: str | None = None  # as the definition spells it
    ignorable: bool = False
    never_flexible: bool = False  # the request header's client id
    entity: str | None = None  # what the value identifies: topicName, groupId, transactionalId, producerId, brokerId

    @property
    def is_array(self) -> bool:
        """Whether the type is an array."""
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        """The type without its array brackets."""
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """Whether the field, or its elements, are structs."""
        return self.element[0].isupper()

    @property
    def absent_is_none(self) -> bool:
        """Whether the default is None: for a tagged struct, which may be absent, and for a struct that may be null."""
        return not self.is_array and self.is_struct and bool(self.nullable or self.tagged)


@dataclass(slots=True)
class Struct:
    """A named list of fields."""

    name: str
    fields: list[Field]


@dataclass(slots=True)
class Message:
    """One message: its top struct first in ``structs``, then those that it names."""

    name: str
    kind: str  # request, response, header, data
    api_key: int | None
    versions: Versions
    flexible: Versions
    structs: dict[str, Struct] = field(default_factory=dict)

    @property
    def top(self) -> Struct:
        """The message's own fields."""
        return self.structs[self.name]

    def reachable(self) -> Iterator[tuple[Struct, Versions]]:
        """Each struct in use, inner ones first, with the versions that it is used in."""
        used: dict[str, Versions] = {}
        order: list[str] = []

        def visit(name: str, versions: Versions) -> None:
            used[name] = used.get(name, NO_VERSIONS).union(versions)
            for member in self.structs[name].fields:
                if member.is_struct and (inner := member.versions.intersect(versions)):
                    visit(member.element, inner)
            if name not in order:
                order.append(name)

        visit(self.name, self.versions)
        return ((self.structs[name], used[name]) for name in order)
