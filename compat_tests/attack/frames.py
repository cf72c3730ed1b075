"""The conversations of the fuzzer: each is the bytes of one connection, drawn by a seed and a number.

The seeds of the frames are requests of every API and version: those that the broker advertises with names that it
knows and does not know, values at the edges, records as clients send them and as they should not; those that it does
not advertise with their default fields. Most frames of a conversation are mutated.

A broken frame ends its connection. So that the frames before it are served, each frame is decoded here first, and a
conversation has at most one that the broker will refuse, at its end. Nearly all frames are small; compression bombs and
frames of up to the limit are a small fixed share.
"""

import random
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from compat_tests.attack.filled import PIPELINE, TIME_MS, Filler, kinds, shapes
from compat_tests.attack.prepared import Counts, framed, topic
from compat_tests.differential.damage import MOST_PARTITIONS, TOPIC_RESOURCE, frame_of
from compat_tests.differential.ids import Ids
from compat_tests.differential.odd_records import OddRecords, changed, with_crc
from compat_tests.differential.requests import Served, single
from compat_tests.differential.steps import RequestBuilder
from harness.mutation import mutate
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader, read_request_header, write_request_header
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.messages import APIS, has_classes, request_class
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.primitives import encode
from kafkapy.protocol.reader import Reader
from kafkapy.protocol.writer import Writer
from kafkapy.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from kafkapy.records.record import Record, encode_batch, encode_legacy

TOPICS: Final = 12
COUNTS: Final = Counts(TOPICS, 12, 12)
"""The content of the broker: frames name these topics, groups and transactional ids."""
DRAWN: Final = 400
ODD_RECORDS: Final = 2000
"""Sets of records that are drawn once, since drawing one takes as long as sending twenty."""
LONGEST: Final = 250
"""Frames in a conversation."""
BATCH: Final = 40
"""Conversations that share a stock of frames."""
HEAVY_PLACES: Final = (7, 27)
"""Conversations of a stock that have a bomb, and a large request."""
FRESH: Final = 1000
"""Mutated frames that go on in a stock."""
FRESH_RECORDS: Final = 150
MOST_TOPICS: Final = 100
"""Partitions that a request may create: they are state, not the cost of a request."""
PATIENT_MS: Final = 50
TOO_MANY_PARTITIONS: Final = 10_000_000
"""The lowest number of partitions that a broker refuses."""
BOMB_SIZES: Final = {GZIP: 80 << 20, SNAPPY: 16 << 20, LZ4: 80 << 20, ZSTD: 200 << 20}
HEADER_SIZE: Final = 61
MAX_FRAME_SIZE: Final = 16 << 20
"""The broker's ``socket.request.max.bytes``."""
SIZES: Final = (-1, -(2**31), 2**31 - 1, MAX_FRAME_SIZE + 1, MAX_FRAME_SIZE, MAX_FRAME_SIZE // 2, 0, 1, 7, 9)
MANY: Final = 500
EDGES: Final = (
    b"\0", b"\1", b"\2", b"\x7f", b"\x80", b"\xff", b"\0\0", b"\xff\xff", b"\x7f\xff", b"\x80\0", b"\0\0\0\0",
    b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f", b"\0" * 8, b"\xff" * 8,
    b"\x7f" + b"\xff" * 7, b"\n", b"\x1b[2J", b"\xc3\x28", b"\xed\xa0\x80",
)  # fmt: skip
"""Values at the edges of numbers and lengths, of one to eight bytes, and bytes that are no text."""

READ, DROP, HOLD = "read", "drop", "hold"
"""How a conversation ends: when its answers have come; at once, without reading; after a while, without reading."""


class Frame(NamedTuple):
    """A frame with its size; ``survives``: its connection goes on; ``waits``: perhaps not answered for long."""

    data: bytes
    survives: bool
    answered: bool
    waits: bool = False


class Conversation(NamedTuple):
    """All bytes of one connection."""

    number: int
    kind: str
    data: bytes
    frames: int
    answers: int
    """The number of expected responses, unless the connection is closed."""
    ending: str
    to: str = ""
    """The kind of security of the listener that it goes to, as it is; else the one that the run is about."""


def sized(frame: bytes) -> bytes:
    """The frame with its size before it."""
    return len(frame).to_bytes(4, "big") + frame


class Judge:
    """Predicts the effect of a frame on its connection."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._classes = {key: request_class(key) for key in served}

    def judge(self, data: bytes) -> Frame | None:
        """The frame, or None for a valid one that would change the broker for later frames (see ``_would_harm``)."""
        reader = Reader(data)
        try:
            header = read_request_header(reader)
            low, high = self._served.get(header.api_key, (0, -1))
            if not low <= header.api_version <= high:
                return Frame(sized(data), survives=False, answered=False)
            request: Any = self._classes[header.api_key].read(reader, header.api_version)
        except ProtocolError:
            return Frame(sized(data), survives=False, answered=False)
        if _would_harm(request):
            return None
        return Frame(sized(data), survives=True, answered=not _is_unanswered(request), waits=_may_wait(request))


def _is_unanswered(request: Any) -> bool:
    return bool(request.API_KEY == ApiKey.PRODUCE and request.acks == 0)


def _would_harm(request: Any) -> bool:
    """Whether the request may change the broker's own configuration, or make many topics or partitions.

    Numbers of partitions that no broker has are sent.
    """
    key = request.API_KEY
    if key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        return any(each.resource_type != TOPIC_RESOURCE for each in request.resources)
    if key not in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS):
        return False
    if not getattr(request, "validate_only", False) and len(request.topics) > MOST_TOPICS:
        return True
    name = "num_partitions" if key == ApiKey.CREATE_TOPICS else "count"
    return any(MOST_PARTITIONS < getattr(each, name) < TOO_MANY_PARTITIONS for each in request.topics)


def _may_wait(request: Any) -> bool:
    if request.API_KEY == ApiKey.FETCH:
        return bool(request.max_wait_ms > PATIENT_MS)
    if _is_unanswered(request):
        return True  # an error in it closes the connection
    return request.API_KEY in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)


class Stock(NamedTuple):
    """Frames that were drawn together; the conversations of one batch take their frames from it."""

    usual: list[Frame]
    records: list[Frame]
    waiting: list[Frame]
    fatal: list[Frame]


class Generator:
    """Draws conversations; the same for a seed, the broker's APIs, and the ids that it has handed out.

    Mutating a frame and decoding it to see what the broker will do costs more than sending it. So the frames are drawn
    in bulk, a stock for each ``BATCH`` conversations, and sent some three times, each time among others. A frame that
    costs the broker much (``bomb``, ``large``) comes once in ``BATCH`` conversations each, whatever the seed.
    """

    def __init__(self, seed: int, served: Served, ids: Ids) -> None:
        self._seed = seed
        self._judge = Judge(served)
        self._served = served
        self._pool = [
            *filled_seeds(served),
            *drawn_seeds(seed, served, ids),
            *default_seeds(),
        ]
        odd = OddRecords(random.Random(seed), TIME_MS)
        self._odd_records = [odd.draw() for _ in range(ODD_RECORDS)]
        bombs()  # takes seconds, once
        self._filler = Filler(COUNTS)
        judged = [(each, self._judge.judge(each)) for each in self._pool]
        # mutants of a frame that ends its connection mostly end it too: such frames are drawn less often
        self._living = [each for each, frame in judged if frame is None or frame.survives]
        self._usual = [frame for _, frame in judged if frame is not None and frame.survives]
        self._brief = [each for each in self._usual if not each.waits]
        self._batch, self._stock = -1, Stock([], [], [], [])
        self._kinds: dict[Callable[[random.Random, int], Conversation], int] = {
            self._mutated: 60,
            self._records: 15,
            self._many: 2,
            self._half: 5,
            self._sizes: 4,
            self._garbage: 4,
            self._unread: 3,
        }

    def conversation(self, number: int) -> Conversation:
        """The conversation of this number; fast if the numbers are requested in order."""
        batch, place = divmod(number, BATCH)
        if batch != self._batch:
            self._batch, self._stock = batch, self._drawn(random.Random(f"{self._seed}-stock-{batch}"))
        chance = random.Random(f"{self._seed}-{number}")
        if place in HEAVY_PLACES:
            return (self._bomb, self._large)[HEAVY_PLACES.index(place)](chance, number)
        (make,) = chance.choices([*self._kinds], [*self._kinds.values()])
        return make(chance, number)

    def _drawn(self, chance: random.Random) -> Stock:
        usual: list[Frame] = []
        waiting: list[Frame] = []
        fatal: list[Frame] = []
        while len(usual) < FRESH:
            frame = self._changed(chance)
            if frame is not None:
                (fatal if not frame.survives else waiting if frame.waits else usual).append(frame)
        drawn = [self._judge.judge(self._produce(chance)) for _ in range(FRESH_RECORDS)]
        records = [each for each in drawn if each is not None and each.survives and not each.waits]
        waiting += [each for each in drawn if each is not None and each.survives and each.waits]
        return Stock(usual, records, waiting, fatal)

    # the kinds

    def _mutated(self, chance: random.Random, number: int) -> Conversation:
        return self._joined(chance, number, "mutated", self._some(chance, self._stock.usual, 1, LONGEST))

    def _records(self, chance: random.Random, number: int) -> Conversation:
        return self._joined(chance, number, "records", self._some(chance, self._stock.records, 1, LONGEST // 2))

    def _many(self, chance: random.Random, number: int) -> Conversation:
        """Hundreds of requests in one write."""
        frames = [chance.choice(self._brief)] * chance.randint(100, MANY)
        return self._joined(chance, number, "many", frames)

    def _half(self, chance: random.Random, number: int) -> Conversation:
        """The last frame ends in the middle."""
        whole = self._unended(number, "half", self._some(chance, self._stock.usual, 0, 20))
        frame = chance.choice(self._usual).data
        cut = frame[: chance.randrange(1, len(frame))]
        ending = chance.choice([DROP, DROP, HOLD])
        return whole._replace(data=whole.data + cut, frames=whole.frames + 1, answers=0, ending=ending)

    def _sizes(self, chance: random.Random, number: int) -> Conversation:
        """A wrong size, with other bytes behind it."""
        whole = self._unended(number, "sizes", self._some(chance, self._stock.usual, 0, 10))
        lie = struct.pack(">i", chance.choice([*SIZES, chance.randrange(-(2**31), 2**31)]))
        data = whole.data + lie + chance.choice(self._pool)
        return whole._replace(data=data, frames=whole.frames + 1, answers=0, ending=chance.choice([DROP, HOLD]))

    def _garbage(self, chance: random.Random, number: int) -> Conversation:
        data = chance.randbytes(chance.choice([1, 3, 4, 5, 50, 2000]))
        if chance.random() < 0.5:
            data = sized(data)
        return Conversation(number, "garbage", data, 1, 0, chance.choice([DROP, HOLD]))

    def _unread(self, chance: random.Random, number: int) -> Conversation:
        """Requests whose responses are not read."""
        whole = self._joined(chance, number, "unread", self._some(chance, self._stock.usual, 1, LONGEST))
        return whole._replace(answers=0, ending=chance.choice([DROP, HOLD]))

    def _bomb(self, chance: random.Random, number: int) -> Conversation:
        data = framed(_produce_request(chance, chance.choice(bombs())), chance.randint(3, 8))
        frame = self._judge.judge(data[4:])
        return self._unended(number, "bomb", [] if frame is None else [frame])

    def _large(self, chance: random.Random, number: int) -> Conversation:
        """A request of up to a megabyte, seldom one near the limit, valid or with a few bytes changed."""
        key = chance.choice([*self._served])
        shape = chance.choice([*shapes(key, chance.randint(*self._served[key]))])
        size = MAX_FRAME_SIZE - 100_000 if chance.random() < 0.05 else chance.randint(70_000, 1 << 20)
        if shape.place[0] == PIPELINE:
            size = chance.randint(5000, 50_000)
        producer = ("x-000000", 0, 0) if self._filler.takes_producer(shape) else None
        data, requests = self._filler.frame(shape, chance.choice([*kinds(shape)]), size, producer)
        if requests > 1:
            return Conversation(number, "large", data, requests, requests, READ)
        if chance.random() < 0.3:
            data = sized(nudged(data[4:], chance))
        frame = self._judge.judge(data[4:])
        return self._unended(number, "large", [] if frame is None else [frame])

    # their parts

    def _changed(self, chance: random.Random) -> Frame | None:
        seed = chance.choice(self._living if chance.random() < 0.8 else self._pool)
        kind = chance.random()
        if kind < 0.2:
            seed = mutate(seed, chance)
        elif kind < 0.9:
            seed = nudged(seed, chance)
        return self._judge.judge(seed)

    def _produce(self, chance: random.Random) -> bytes:
        records = chance.choice(self._odd_records)
        if records and chance.random() < 0.6:
            for _ in range(chance.randint(1, 3)):
                records = changed(records, chance.randrange(len(records)), chance.randbytes(chance.randint(1, 4)))
            records = with_crc(records)
        return framed(_produce_request(chance, records), chance.randint(*self._served[ApiKey.PRODUCE]))[4:]

    @staticmethod
    def _some(chance: random.Random, frames: list[Frame], least: int, most: int) -> list[Frame]:
        return chance.choices(frames, k=chance.randint(least, most))

    def _joined(self, chance: random.Random, number: int, kind: str, frames: list[Frame]) -> Conversation:
        """The frames in one piece, sometimes with one that may wait behind them, often with one that is refused."""
        last: list[Frame] = []
        if chance.random() < 0.2 and self._stock.waiting:
            last.append(chance.choice(self._stock.waiting))
        if chance.random() < 0.7 and self._stock.fatal:
            last.append(chance.choice(self._stock.fatal))
        return self._unended(number, kind, frames + last)

    @staticmethod
    def _unended(number: int, kind: str, frames: list[Frame]) -> Conversation:
        data = b"".join([each.data for each in frames])
        return Conversation(number, kind, data, len(frames), sum([each.answered for each in frames]), READ)


def nudged(data: bytes, chance: random.Random) -> bytes:
    """One change behind the header's numbers: another value for a few bytes. Faster than ``mutate``."""
    at = int(chance.random() * (len(data) - 7)) + 8 if len(data) > 8 else len(data)
    kind = chance.random()
    if kind < 0.4:
        new = chance.randbytes(1)
    elif kind < 0.8:
        new = EDGES[int(chance.random() * len(EDGES))]
    else:
        new = int(chance.random() * 300).to_bytes(4, "big")
    return data[:at] + new + data[at + len(new) :]


def _produce_request(chance: random.Random, records: bytes | None) -> ProduceRequest:
    partition = PartitionProduceData(chance.choice([0, 0, 0, 1, 2]), records)
    data = TopicProduceData(name=topic(chance.randrange(TOPICS)), partition_data=[partition])
    return ProduceRequest(acks=chance.choice([-1, -1, 1, 1, 0]), timeout_ms=1000, topic_data=[data])


def filled_seeds(served: Served) -> Iterator[bytes]:
    """Small requests of everything that is served, with each list and kind of name."""
    filler = Filler(COUNTS)
    for key, (low, high) in served.items():
        for version in range(low, high + 1):
            for shape in shapes(key, version):
                for kind in kinds(shape):
                    yield filler.small(shape, kind, 2, ("x-000000", 0, 0))[4:]


def drawn_seeds(number: int, served: Served, ids: Ids) -> Iterator[bytes]:
    """Requests with values at the edges, drawn as for the comparison with Apache Kafka."""
    found: list[Any] = []

    @hypothesis.seed(number)
    @settings(
        max_examples=DRAWN,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(single(served))
    def take(steps: Any) -> None:
        found.extend(steps)

    take()
    builder = RequestBuilder(ids.resolve, ids.resolve_topic)
    for step in found:
        try:
            body = encode(builder.build(step), step.version)
        except ProtocolError:
            continue  # a value that this version can't encode
        yield frame_of(RequestHeader(step.key, step.version, 7, "fuzz"), body, step.damage)


def default_seeds() -> Iterator[bytes]:
    """Requests of every API and version of the protocol: default fields where there are classes, else zeros."""
    for key, (_, _, low, high, _) in APIS.items():
        for version in range(low, high + 1):
            writer = Writer()
            write_request_header(writer, RequestHeader(key, version, 7, "fuzz"))
            try:
                if has_classes(key):
                    request_class(key)().write(writer, version)
            except ProtocolError:
                continue  # a required field without a default
            yield writer.getvalue() + bytes(16 if has_classes(key) else 64)


@cache
def bombs() -> list[bytes]:
    """Records of a few kilobytes (snappy: a megabyte) that hold many megabytes when they are decompressed."""
    found: list[bytes] = []
    for codec, size in BOMB_SIZES.items():
        zeros = compress(codec, bytes(size))
        small = encode_batch([Record(None, b"v", TIME_MS)], compression=codec)
        length = struct.pack(">i", HEADER_SIZE - 12 + len(zeros))
        found.append(with_crc(changed(small[:HEADER_SIZE] + zeros, 8, length)))
        found.append(encode_batch([Record(None, bytes(size), TIME_MS)], compression=codec))
        if codec != ZSTD:
            found.append(encode_legacy([Record(None, bytes(size), TIME_MS)], 1, compression=codec))
    return found
