"""Where messages name topics, partitions and groups, and where responses have an error code for each of them.

Kafka's definitions mark fields that are names of topics and ids of groups (``entityType``); partitions and
configuration resources are recognized by their fields' names. A list of the request and a list of the response belong
together when their items stand for the same kind of thing, level by level.
"""

from typing import NamedTuple

from harness.definitions.model import Field, Message, Struct, Versions
from harness.definitions.names import snake_case

_ENTITIES = {"topicName": "TOPIC", "groupId": "GROUP", "producerId": "PRODUCER"}
_PARTITIONS = {"Partition", "PartitionIndex", "PartitionId", "Index", "Partitions", "PartitionIndexes"}
_RESOURCE = "ResourceName"


class Level(NamedTuple):
    """A list whose items stand for something."""

    role: str
    field: str
    """The field of its struct that has the list."""
    item: str
    """Kafka's name of an item's struct; "" when the item is the name."""
    named: str
    """The item's field with its name; "" when the item is the name."""
    error: str = ""
    """The item's field with an error code; "" without one."""


class Place(NamedTuple):
    """A list of a request, and the list of the response with its results."""

    asked: Level
    answered: Level


def places(request: Message, response: Message, versions: Versions) -> list[Place]:
    """The lists, outermost first, down to the one whose results have an error code; empty without one."""
    questions = _chains(request, request.top, versions)
    for answers in _chains(response, response.top, versions):
        for asked in questions:
            paired = [Place(*pair) for pair in zip(asked, answers, strict=False)]
            if all(place.asked.role == place.answered.role for place in paired) and paired[-1].answered.error:
                return paired
    return []


def names_group(request: Message, versions: Versions) -> bool:
    """Whether the request is about one group."""
    return any(entry.entity == "groupId" and not entry.is_array for entry in _top_fields(request, versions))


def names_member(request: Message, versions: Versions) -> bool:
    """Whether the request says which member of a group sends it."""
    return any(entry.name == "MemberId" for entry in _top_fields(request, versions))


def _top_fields(message: Message, versions: Versions) -> list[Field]:
    return [entry for entry in message.top.fields if entry.versions.intersect(versions)]


def _chains(message: Message, struct: Struct, versions: Versions) -> list[list[Level]]:
    """Each chain of nested lists whose items stand for something: those of the oldest versions first.

    Where a newer list names topics by name or id, handlers get the older one, which has the names.
    """
    found: list[list[Level]] = []
    for entry in sorted(struct.fields, key=lambda entry: entry.versions.low):
        if not entry.is_array or not (inner := entry.versions.intersect(versions)):
            continue
        attribute = snake_case(entry.name)
        if not entry.is_struct:
            if role := _role(entry):
                found.append([Level(role, attribute, "", "")])
            continue
        item = message.structs[entry.element]
        fields = [member for member in item.fields if member.versions.intersect(inner)]
        key = next((member for member in fields if not member.is_array and _role(member)), None)
        if key is None:
            continue
        level = Level(_role(key), attribute, item.name, snake_case(key.name), _error(fields))
        found += [[level, *deeper] for deeper in _chains(message, item, inner) or [[]]]
    return found


def _role(entry: Field) -> str:
    if entry.entity in _ENTITIES:
        return _ENTITIES[entry.entity]
    if entry.name in _PARTITIONS and entry.element == "int32":
        return "PARTITION"
    return "RESOURCE" if entry.name == _RESOURCE else ""


def _error(fields: list[Field]) -> str:
    codes = [snake_case(entry.name) for entry in fields if entry.name.endswith("ErrorCode")]
    return "error_code" if "error_code" in codes else next(iter(codes), "")
