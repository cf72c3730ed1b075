"""A recorded client's requests to another broker, with the ids that this one gives out, and both brokers' answers."""

import struct
import time
from typing import Any, Final, NamedTuple

from compat_tests.differential.allowed import rule_for
from compat_tests.differential.cases import Case, Facts
from compat_tests.differential.ids import ATTRIBUTES_END, Ids, batches
from compat_tests.differential.neutral import Gap, Neutral, gaps
from compat_tests.differential.recordings.proxy import A_MOMENT_S, WAITING_APIS
from compat_tests.differential.recordings.recording import CLIENT, Frame, Recording
from compat_tests.differential.settling import is_passing
from compat_tests.differential.sides import Connection, decoded
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import read_request_header
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.primitives import encode
from kafkapy.protocol.reader import Reader
from kafkapy.records.batch import HEADER_SIZE, crc_of

BY_FIELD: Final = {
    "producer_id": "producer", "v3_and_below_producer_id": "producer", "session_id": "session",
}  # fmt: skip
FACTS: Final = Facts(stamped=False, compressed=True, waited=True, damaged=False, release="2.7.2")
PLAIN_READS: Final = (
    "METADATA", "DESCRIBE_CONFIGS", "LIST_GROUPS", "DESCRIBE_GROUPS", "OFFSET_FETCH", "LIST_OFFSETS",
    "HEARTBEAT",
)  # fmt: skip
"""Requests that may show a change only a moment after it was answered: repeated before answers count as different."""
AGAIN_S: Final = 3.0


class Asked(NamedTuple):
    """A pending request; ``data`` is its frame."""

    api: ApiKey
    version: int
    request: Any
    data: bytes

    def answer(self, data: bytes | str | None) -> Any:
        """The response, or None; ApiVersions in a version that a broker does not know is answered in version 0."""
        if not isinstance(data, bytes):
            return None
        found = decoded(data, self.api, self.version) if self.request is not None else None
        return decoded(data, self.api, 0) if found is None and self.api == ApiKey.API_VERSIONS else found

    def is_passing(self, data: bytes | str | None) -> bool:
        """Whether the answer has a retriable error."""
        return is_passing(self.answer(data))

    def can_be_repeated(self, answer: bytes | str | None) -> bool:
        """Whether the request may be repeated: it was not executed, or only reads."""
        return self.api.name in PLAIN_READS or self.is_passing(answer)


class Playback:
    """One recording and one broker; ``prefix`` is how the names in the recording begin."""

    def __init__(self, recording: Recording, bootstrap: str, prefix: str) -> None:
        self._recording = recording
        self._bootstrap = bootstrap
        self._ids = (Ids(prefix), Ids(prefix))
        port = int(bootstrap.rpartition(":")[2])
        self._neutral = tuple(
            Neutral(ids, of, alone=True) for ids, of in zip(self._ids, (recording.port, port), strict=True)
        )
        self._connections: dict[int, Connection] = {}
        self._asked: dict[tuple[int, int], Asked] = {}
        self.answers = 0
        self.differences: list[str] = []

    def run(self) -> None:
        """Play until an answer differs; playback waits only for the answers that the client waited for."""
        try:
            for frame in self._recording.frames:
                if self.differences:
                    return
                if frame.direction == CLIENT:
                    self._ask(frame)
                else:
                    self._hear(frame)
        finally:
            for connection in self._connections.values():
                connection.close()

    def _connection(self, number: int) -> Connection:
        if number not in self._connections:
            self._connections[number] = Connection(self._bootstrap)
        return self._connections[number]

    def _ask(self, frame: Frame) -> None:
        key, version, correlation_id = struct.unpack_from(">hhi", frame.data)
        request, data = None, frame.data
        if request_class(key).MIN_VERSION <= version <= request_class(key).MAX_VERSION:  # type: ignore[attr-defined]  # requests have them
            reader = Reader(memoryview(data))
            read_request_header(reader)
            start = reader.position
            request = request_class(key).read(reader, version)
            if encode(request, version) == data[start:]:  # or else it goes out as it is
                self._substitute(request)
                data = data[:start] + encode(request, version)
        self._asked[frame.connection, correlation_id] = Asked(ApiKey(key), version, request, data)
        self._connection(frame.connection).send(data)
        if key in WAITING_APIS:  # the proxy held the next request back for as long
            self._connection(frame.connection).has_answer(A_MOMENT_S)

    def _substitute(self, message: Message) -> None:
        """Put this broker's ids where the client named those of the recorded one."""
        for slot in message.__slots__:
            value = getattr(message, slot)
            if isinstance(value, list):
                setattr(message, slot, [self._substituted(slot, each) for each in value])
            else:
                setattr(message, slot, self._substituted(slot, value))

    def _substituted(self, slot: str, value: Any) -> Any:
        if isinstance(value, Message):
            self._substitute(value)
            return value
        if isinstance(value, memoryview):
            return self._records(bytearray(value))
        for kind, recorded, here in self._ids[0].pairs(self._ids[1]):
            if kind == "member" and isinstance(value, str | bytes):
                old, new = (recorded, here) if isinstance(value, str) else (recorded.encode(), here.encode())
                value = value.replace(old, new)
            elif kind == BY_FIELD.get(slot) and value == recorded:
                return here
        return value

    def _records(self, content: bytearray) -> memoryview:
        ids = {recorded: here for kind, recorded, here in self._ids[0].pairs(self._ids[1]) if kind == "producer"}
        for position, magic in batches(content, len(content) - HEADER_SIZE + ATTRIBUTES_END):
            if magic != 2:
                continue
            (producer_id,) = struct.unpack_from(">q", content, position + 43)
            if producer_id in ids:
                struct.pack_into(">q", content, position + 43, ids[producer_id])
                (size,) = struct.unpack_from(">i", content, position + 8)
                struct.pack_into(">I", content, position + 17, crc_of(content, position, size + 12))
        return memoryview(content)

    def _hear(self, frame: Frame) -> None:
        (correlation_id,) = struct.unpack_from(">i", frame.data)
        asked = self._asked[frame.connection, correlation_id]
        connection = self._connection(frame.connection)
        deadline = time.monotonic() + AGAIN_S
        answer = connection.receive()
        found = self._gaps(asked, frame.data, answer)
        while found and asked.can_be_repeated(answer) and time.monotonic() < deadline:
            time.sleep(0.02)
            connection.send(asked.data)
            answer = connection.receive()
            found = self._gaps(asked, frame.data, answer)
        self.answers += 1
        if asked.is_passing(frame.data) and found:
            return  # the client's retry is not needed: this broker is faster
        name = f"answer {self.answers}, {asked.api.name} v{asked.version}"
        self.differences += [f"{name}: {each.path} was {each.theirs!r}, is {each.ours!r}" for each in found]

    def _gaps(self, asked: Asked, recorded: bytes, answer: bytes | str | None) -> list[Gap]:
        messages = [asked.answer(each) for each in (recorded, answer)]
        if answer == recorded and None in messages:
            return []
        if None in messages:
            return [Gap(("answer",), recorded.hex(), answer)]
        for ids, message in zip(self._ids, messages, strict=True):
            ids.learn(message)
        was, now = (neutral.of(message) for neutral, message in zip(self._neutral, messages, strict=True))
        cases = [Case(asked.api.name, asked.version, asked.request, was, now, gap, FACTS) for gap in gaps(was, now)]
        return [case.gap for case in cases if rule_for(case) is None]
