"""Answers as plain values without the parts that two brokers can't have in common, and their differences."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

from compat_tests.differential.ids import Ids
from kafkapy.protocol.message import Message
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import read_records

FOREIGN: Final = re.compile(r"d[0-9a-f]{4}x\d+-")
"""The prefix of the names of all conversations."""
NAMES: Final = ("name", "topic", "group_id", "resource_name", "topic_name")
KEYS: Final = ("name", "topic", "group_id", "resource_name", "topic_name", "partition_index", "partition", "index")
NUMBERED: Final = {"producer_id": "producer", "session_id": "session"}
BROKER_IDS: Final = ("node_id", "controller_id", "leader_id", "replica_nodes", "isr_nodes")
"""Fields with ids of brokers; only a broker that the test has not started has another id than the original."""
KEPT_IN_ORDER: Final = ("FetchResponse", "ApiVersionsResponse")
"""Responses whose lists have a defined order; in others Kafka's order is that of a hash table."""


class Neutral:
    """One broker's answers in one conversation, made comparable."""

    def __init__(self, ids: Ids, port: int, *, alone: bool = False) -> None:
        """``alone``: names without the conversation's prefix are left out."""
        self._ids = ids
        self._port = port
        self._alone = alone
        self._is_of_all = alone
        self._is_ordered = False

    def of(self, answer: Message) -> Any:
        """The answer as dicts, lists, numbers and texts."""
        self._is_ordered = type(answer).__name__ in KEPT_IN_ORDER
        self._is_of_all = self._alone or type(answer).__name__ == "ListGroupsResponse"
        return self._message(answer)

    def _message(self, message: Message) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for slot in message.__slots__:
            value = getattr(message, slot)
            if value is not None or slot != "unknown_tagged_fields":
                fields[slot] = self._value(slot, value)
        return fields

    def _value(self, slot: str, value: Any) -> Any:
        if isinstance(value, Message):
            return self._message(value)
        if isinstance(value, list):
            return self._list(slot, value)
        if isinstance(value, memoryview) or slot == "records":
            return None if value is None else self._ids.named_records(bytes(value))
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, str):
            return self._text(slot, value)
        if isinstance(value, UUID):
            return self._ids.named_topic(value)
        return self._number(slot, value)

    def _number(self, slot: str, value: Any) -> Any:
        if slot == "port" and value == self._port:
            return "<port>"
        if self._alone and slot in BROKER_IDS and value >= 0:
            return "<broker>"
        if slot == "log_append_time_ms":
            return value if value < 0 else "<now>"
        return self._ids.name(NUMBERED[slot], value) if slot in NUMBERED else value

    def _text(self, slot: str, value: str) -> str:
        if slot in ("error_message", "batch_index_error_message"):
            return "<a sentence>"
        if slot in ("cluster_id", "log_dir"):
            return f"<{slot}>"
        return self._ids.named_text(value)

    def _list(self, slot: str, values: list[Any]) -> list[Any]:
        found = [self._value(slot, each) for each in values]
        found = [each for each in found if not self._is_foreign(each)]
        return found if self._is_ordered else sorted(found, key=_order)

    def _is_foreign(self, value: Any) -> bool:
        """Whether it is about another conversation's topic or group."""
        if not isinstance(value, dict):
            return False
        names = [value[name] for name in NAMES if isinstance(value.get(name), str)]
        return any((self._is_of_all or FOREIGN.match(name)) and not name.startswith(self._ids.prefix) for name in names)


def _order(value: Any) -> str:
    """The sort key of an element: its names first, then its other fields."""
    named = [value.get(name) for name in KEYS] if isinstance(value, dict) else []
    return json.dumps([named, value], default=str)


class Gap(NamedTuple):
    """A place where two answers differ; a list of another length is one place."""

    path: tuple[Any, ...]
    theirs: Any
    ours: Any

    @property
    def field(self) -> str:
        """The field's name."""
        return next((str(each) for each in reversed(self.path) if isinstance(each, str)), "")


def gaps(theirs: Any, ours: Any, path: tuple[Any, ...] = ()) -> Iterator[Gap]:
    """The places where two neutral answers differ."""
    if theirs == ours:
        return
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in {**theirs, **ours}:
            yield from gaps(theirs.get(name), ours.get(name), (*path, name))
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for place, pair in enumerate(zip(theirs, ours, strict=True)):
            yield from gaps(*pair, (*path, place))
    else:
        yield Gap(path, theirs, ours)


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """The value at a path of a neutral answer."""
    for each in path:
        value = value[each]
    return value


def told(content: bytes, *, stamped: bool = False) -> list[Any]:
    """The content of whole batches: headers without sizes, and records; ``stamped``: times are the brokers' own."""
    found: list[Any] = []
    for position, header in iterate_headers(content):
        kept = header._replace(size=0, crc=0)
        if stamped or header.is_control:
            kept = kept._replace(base_timestamp=0, max_timestamp=0)
        found.append(kept)
        for record in read_records(content, header, position):
            found.append(record._replace(timestamp=0) if stamped or header.is_control else record)
    return found
