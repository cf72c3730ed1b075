"""Ids that brokers generate (of members, producers, sessions, topics): learned from the answers, and named alike."""

import random
import re
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import UUID

from compat_tests.differential.odd_records import OddRecords
from kafkapy.records.batch import HEADER_SIZE
from kafkapy.records.record import Record, encode_batch

MEMBER_ID: Final = re.compile(r"diff.{25,49}|[ij]-.{24,48}|.{0,13}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.DOTALL)
"""Matches damaged member ids too: those whose beginning, or whose end, is whole."""
NOW_MS: Final = int(time.time() * 1000)
"""The time of this run's records, which both brokers get."""
MEMBER_ID_REQUIRED: Final = 79
UNKNOWN: Final = {"member": "nobody", "producer": 987_654, "epoch": 0, "generation": 1, "session": 987_654}
"""The values of names before an id was learned."""
NO_ID, UNKNOWN_TOPIC_ID = UUID(int=0), UUID(int=987_654)
_FIRST_NAMED: Final = 10**15
ATTRIBUTES_END: Final = 23


class Ids:
    """The ids of one broker in one conversation."""

    def __init__(self, prefix: str, now_ms: int = NOW_MS) -> None:
        self.prefix = prefix
        self._now_ms = now_ms
        self._learned: dict[str, list[Any]] = {kind: [] for kind in UNKNOWN}
        self._topics: dict[UUID, str] = {}

    def learn(self, answer: Any) -> None:
        """Remember the ids in an answer."""
        kind = type(answer).__name__
        if kind == "JoinGroupResponse" and answer.error_code in (0, MEMBER_ID_REQUIRED):
            self._add("member", answer.member_id)
            if answer.error_code == 0:
                self._add("generation", answer.generation_id)
        elif (kind == "InitProducerIdResponse" and answer.error_code == 0) or (
            kind == "EndTxnResponse" and answer.producer_id >= 0
        ):
            self._add("producer", answer.producer_id)
            self._learned["epoch"].append(answer.producer_epoch)
        elif kind == "FetchResponse" and answer.session_id:
            self._add("session", answer.session_id)
        elif kind in ("CreateTopicsResponse", "MetadataResponse"):
            self.learn_topics(answer)

    def learn_topics(self, answer: Any) -> None:
        """Remember the ids of the topics in an answer of CreateTopics or Metadata."""
        for topic in answer.topics:
            if topic.topic_id != NO_ID and topic.name is not None:
                self._topics[topic.topic_id] = topic.name

    def _add(self, kind: str, value: Any) -> None:
        known = self._learned[kind]
        if value not in known:
            known.append(value)

    def resolve_topic(self, text: str) -> UUID:
        """The id that is meant: ``@name`` is the newest one of the conversation's topic."""
        if not text.startswith("@"):
            return UUID(text)
        name = self.prefix + text[1:]
        return next((each for each in reversed(self._topics) if self._topics[each] == name), UNKNOWN_TOPIC_ID)

    def resolve(self, value: Any) -> Any:
        """The value for this broker of a JSON value in a plan."""
        if isinstance(value, str) and value.startswith("@"):
            kind, _, back = value[1:].partition(":")
            if kind not in UNKNOWN or not back:
                return self.prefix + value[1:]
            known = self._learned[kind]
            return known[-1 - int(back) % len(known)] if known else UNKNOWN[kind]
        if isinstance(value, dict):
            return self._bytes(value)
        return value

    def _bytes(self, value: dict[str, Any]) -> bytes | None:
        if "odd" in value:
            return OddRecords(random.Random(value["odd"]), self._now_ms).draw()
        return self._batch(**value["batch"]) if "batch" in value else bytes.fromhex(value["hex"])

    def _batch(self, count: int, **fields: Any) -> bytes:
        """As a producer writes it; ``age`` is how many milliseconds ago."""
        at = self._now_ms - fields.pop("age", 0)
        records = [Record(b"k%d" % place, b"v" * (place + 1), at + place) for place in range(count)]
        named = {name: self.resolve(each) for name, each in fields.items()}
        return encode_batch(records, **named)

    # The way back

    def named_topic(self, topic_id: UUID) -> str:
        """The id of a topic under the name of the topic, with its number if there were several."""
        known = [each for each in self._topics if self._topics[each] == self._topics.get(topic_id)]
        if topic_id not in known:
            return str(topic_id) if topic_id.int < UNKNOWN_TOPIC_ID.int + 1 else "<some topic id>"
        return f"<id {known.index(topic_id) + 1} of {self._topics[topic_id].removeprefix(self.prefix)}>"

    def name(self, kind: str, value: Any) -> Any:
        """A learned id under the name that it has in both conversations."""
        known = self._learned[kind]
        return f"<{kind} {known.index(value) + 1}>" if value in known else value

    def pairs(self, other: "Ids") -> list[tuple[str, Any, Any]]:
        """The kind, this broker's value and the other's value of every id that both handed out."""
        return [
            (kind, *values)
            for kind, known in self._learned.items()
            for values in zip(known, other._learned[kind], strict=False)
        ]

    def named_text(self, text: str) -> str:
        """A text with names instead of the ids in it; unknown ids get a common name."""
        named = self.name("member", text)
        return named if named is not text else MEMBER_ID.sub("<some id>", text)

    def named_records(self, data: bytes) -> bytes:
        """Batches with named producer ids, without the brokers' times and without CRCs."""
        content = bytearray(data + bytes(HEADER_SIZE))  # a cut off header has ids and times, too
        for position, magic in batches(content, len(data)):
            if magic == 2:
                self._name_batch(content, position)
            elif content[position + 17] & 8 and magic == 1:
                content[position + 12 : position + 16] = bytes(4)
                content[position + 18 : position + 26] = bytes(8)
        return bytes(content[: len(data)])

    def _name_batch(self, content: bytearray, position: int) -> None:
        (attributes,) = struct.unpack_from(">h", content, position + 21)
        (producer_id,) = struct.unpack_from(">q", content, position + 43)
        if producer_id in self._learned["producer"]:
            number = _FIRST_NAMED + self._learned["producer"].index(producer_id)
            struct.pack_into(">q", content, position + 43, number)
            content[position + 17 : position + 21] = bytes(4)
        if attributes & 0x28:  # append time, or a control batch: the broker's clock
            content[position + 17 : position + 21] = bytes(4)
            content[position + 27 : position + 43] = bytes(16)


def batches(content: bytearray, end: int) -> Iterator[tuple[int, int]]:
    """Position and magic of each batch or entry that is not cut off before its attributes."""
    position = 0
    while position + ATTRIBUTES_END <= end:
        yield position, content[position + 16]
        (size,) = struct.unpack_from(">i", content, position + 8)
        if size <= 0:
            return
        position += 12 + size


Resolve = Callable[[Any], Any]
