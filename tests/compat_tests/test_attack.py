"""The parts of the attacks that need no broker: frames, counted answers, latencies, tracebacks in a log."""

import random
import socket
from itertools import islice

import pytest

from compat_tests.attack import filled, frames
from compat_tests.attack.answers import Answers
from compat_tests.attack.filled import (
    INVALID,
    KNOWN,
    PIPELINE,
    REPEATED,
    TIME_MS,
    UNKNOWN,
    Filler,
    Kind,
    Shape,
    kinds,
    shapes,
)
from compat_tests.attack.frames import Generator, Judge, nudged, sized
from compat_tests.attack.fuzzer import frames_of
from compat_tests.attack.prepared import Counts
from compat_tests.attack.latencies import Latencies, corrected, percentile
from compat_tests.attack.watch import place_of, tracebacks_in
from compat_tests.differential.ids import Ids
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import read_request_header
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.reader import Reader
from kafkapy.records.record import read_records
from kafkapy.server.handlers import REGISTRY

SERVED = {int(key): (api.min_version, api.max_version) for key, api in REGISTRY.items() if api.advertised}
COUNTS = Counts(3, 4, 5)
METADATA = Shape(ApiKey.METADATA, 4, ("MetadataRequest", "topics"))
LOG = """2026-01-01 ERROR one: A handler failed
Traceback (most recent call last):
  File "/x/kafkapy/a.py", line 3, in handle
    step()
  File "/x/kafkapy/b.py", line 5, in step
    raise ValueError("a: b")
ValueError: a: b
2026-01-01 WARNING Closed the connection of 127.0.0.1:1
2026-01-01 ERROR asyncio: Task exception was never retrieved
"""


def decoded(frame: bytes) -> tuple[Message, int]:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    reader = Reader(frame[4:])
    header = read_request_header(reader)
    request = request_class(header.api_key).read(reader, header.api_version)
    reader.expect_end()
    return request, header.api_version


def topics(kind: Kind) -> list[str]:
    request, _ = decoded(Filler(COUNTS).frame(METADATA, kind, 5000)[0])
    assert isinstance(request, MetadataRequest)
    assert request.topics is not None
    return [str(each.name) for each in request.topics]


class TestFilled:
    @pytest.mark.parametrize("key", SERVED, ids=lambda key: ApiKey(key).name)
    def test_each_shape_is_a_request_of_about_the_size(self, key: int) -> None:
        filler = Filler(COUNTS)
        low, high = SERVED[key]
        for version in range(low, high + 1):
            for shape in shapes(key, version):
                for kind in islice(kinds(shape), 2):
                    data, requests = filler.frame(
                        shape, kind, 3000, ("x", 1, 2) if filler.takes_producer(shape) else None
                    )
                    assert 2500 < len(data) < 3600, (shape, kind)
                    sent = frames_of(data)
                    assert len(sent) == requests
                    assert (requests > 1) == (shape.place[0] == PIPELINE)
                    assert decoded(sent[0])[1] == version

    def test_names(self) -> None:
        assert set(topics(Kind(KNOWN))) == {"t-000000", "t-000001", "t-000002"}
        assert set(topics(Kind(REPEATED))) == {"t-000000"}
        unknown, invalid = topics(Kind(UNKNOWN)), topics(Kind(INVALID))
        assert len(set(unknown)) == len(unknown) > 300
        assert len(set(invalid)) == len(invalid) > 300
        assert "ü" in invalid[0]

    def test_settings_stand_in_every_element(self) -> None:
        shape = Shape(ApiKey.DESCRIBE_CONFIGS, 3, ("DescribeConfigsRequest", "resources"))
        (broker,) = (kind for kind in kinds(shape) if kind.settings)
        request, _ = decoded(Filler(COUNTS).frame(shape, broker, 2000)[0])
        found = {(each.resource_type, each.resource_name) for each in request.resources}  # type: ignore[attr-defined]
        assert found == {(4, "0")}

    def test_a_bomb_is_small_and_its_record_is_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(filled, "BOMB_SIZE", 1 << 20)
        filled._bomb.cache_clear()
        shape = Shape(ApiKey.PRODUCE, 8, (PIPELINE, PIPELINE))
        (bomb,) = (kind for kind in kinds(shape) if kind.settings)
        data, requests = Filler(COUNTS).frame(shape, bomb, 10_000)
        filled._bomb.cache_clear()
        assert requests > 10
        request, _ = decoded(frames_of(data)[0])
        batch = request.topic_data[0].partition_data[0].records  # type: ignore[attr-defined]
        (record,) = read_records(batch)
        assert record.value == bytes(1 << 20)


class TestAnswers:
    @pytest.mark.parametrize("step", [1, 3, 7, 1000])
    def test_frames_in_pieces(self, step: int) -> None:
        data = sized(b"abc") + sized(b"") + sized(bytes(20))
        answers = Answers(64)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for start in range(0, len(data), step):
                theirs.sendall(data[start : start + step])
                assert answers.receive(ours)
            while answers.count < 3:
                assert answers.receive(ours)
            theirs.close()
            assert not answers.receive(ours)
        assert answers.count == 3


class TestLatencies:
    def test_a_stall_counts_for_the_requests_that_were_not_sent(self) -> None:
        assert corrected([("a", 0.0, 0.125), ("a", 0.25, 1.0)], 0.25) == [0.125, 0.5, 0.75, 1.0]
        assert percentile([0.125, 0.5, 0.75, 1.0], 0.5) == 0.75

    def test_what_still_waits_counts(self) -> None:
        assert corrected([], 0.003, waiting_s=0.002) == [0.002]
        assert percentile([], 0.99) == 0.0


class TestLog:
    def test_tracebacks(self) -> None:
        one, other = tracebacks_in(LOG)
        assert one.startswith("2026-01-01 ERROR one")
        assert one.endswith("ValueError: a: b")
        assert place_of(one) == "ValueError at b.py:5 step"
        assert "never retrieved" in other
        assert tracebacks_in("all is well\n") == []


class TestFuzz:
    @pytest.fixture
    def generator(self, monkeypatch: pytest.MonkeyPatch) -> Generator:
        monkeypatch.setattr(frames, "BOMB_SIZES", dict.fromkeys(frames.BOMB_SIZES, 1 << 16))
        monkeypatch.setattr(frames, "DRAWN", 20)
        monkeypatch.setattr(frames, "ODD_RECORDS", 50)
        frames.bombs.cache_clear()
        yield_ = Generator(7, SERVED, Ids("f-", TIME_MS))
        frames.bombs.cache_clear()
        return yield_

    @pytest.mark.slow
    def test_the_same_seed_gives_the_same_bytes(self, generator: Generator) -> None:
        other = Generator(7, SERVED, Ids("f-", TIME_MS))
        numbers = range(60)
        assert [generator.conversation(each) for each in numbers] == [other.conversation(each) for each in numbers]
        assert generator.conversation(0) != Generator(8, SERVED, Ids("f-", TIME_MS)).conversation(0)
        assert len({generator.conversation(each).kind for each in range(300)}) == 8

    def test_what_a_frame_does_to_its_connection(self) -> None:
        judge = Judge(SERVED)
        usual = Filler(COUNTS).frame(METADATA, Kind(KNOWN), 300)[0][4:]
        frame = judge.judge(usual)
        assert frame is not None
        assert (frame.survives, frame.answered, frame.waits) == (True, True, False)
        for broken in (usual[:20], b"", b"\0\x63" + usual[2:], usual[:2] + b"\0\x63" + usual[4:]):
            frame = judge.judge(broken)
            assert frame is not None
            assert not frame.survives

    def test_a_nudge_leaves_the_header_alone(self) -> None:
        chance = random.Random(1)
        data = bytes(range(40))
        changed = [nudged(data, chance) for _ in range(200)]
        assert all(each[:8] == data[:8] for each in changed)
        assert len(set(changed)) > 100
        assert nudged(b"\0", chance)[:1] == b"\0"
