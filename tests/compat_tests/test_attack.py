"""The parts of the attacks that need no broker: frames, counted answers, latencies, tracebacks in a log."""

import random
import socket
from itertools import islice
from pathlib import Path

import pytest

from compat_tests.attack import fairness, filled, frames, fuzzer
from compat_tests.attack.answers import Answers
from compat_tests.attack.fairness import Limits, Row, attacks, table
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
from compat_tests.attack.fuzzer import added, frames_of
from compat_tests.attack.latencies import Latencies, corrected, percentile
from compat_tests.attack.options import Bounds, bounds_of
from compat_tests.attack.prepared import Counts
from compat_tests.attack.watch import place_of, tracebacks_in
from compat_tests.differential.ids import Ids
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import read_request_header
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.messages.create_topics import CreateTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.reader import Reader
from kafkapy.records.record import read_records
from kafkapy.server.handlers import REGISTRY

SERVED = {int(key): (api.min_version, api.max_version) for key, api in REGISTRY.items() if not api.between_brokers}
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

    @pytest.mark.parametrize("version", [SERVED[ApiKey.CREATE_TOPICS][0], SERVED[ApiKey.CREATE_TOPICS][1]])
    @pytest.mark.parametrize("names", [KNOWN, REPEATED, UNKNOWN, INVALID])
    def test_copied_blocks_are_the_elements_one_by_one(
        self, monkeypatch: pytest.MonkeyPatch, version: int, names: str
    ) -> None:
        shape, kind = Shape(ApiKey.CREATE_TOPICS, version, ("CreateTopicsRequest", "topics")), Kind(names)
        filler = Filler(COUNTS)
        one_by_one, _ = decoded(filler.frame(shape, kind, 20_000)[0])
        monkeypatch.setattr(filled, "BLOCK", 10)
        monkeypatch.setattr(filled, "KNOWN_BLOCK", 60)
        copied, _ = decoded(filler.frame(shape, kind, 20_000)[0])
        assert isinstance(one_by_one, CreateTopicsRequest)
        assert isinstance(copied, CreateTopicsRequest)
        assert len(copied.topics) > 240
        assert copied.topics == one_by_one.topics[: len(copied.topics)]

    @pytest.mark.parametrize("shape", [
        Shape(ApiKey.CREATE_PARTITIONS, 2, ("CreatePartitionsTopic", "assignments")),
        Shape(ApiKey.CREATE_TOPICS, 0, ("CreatableTopic", "assignments")),
    ])  # fmt: skip
    def test_counts_beside_copied_elements_agree_with_them(self, monkeypatch: pytest.MonkeyPatch, shape: Shape) -> None:
        monkeypatch.setattr(filled, "BLOCK", 10)
        request, _ = decoded(Filler(COUNTS).frame(shape, Kind(REPEATED), 3000)[0])
        (named,) = request.topics  # type: ignore[attr-defined]
        assert len(named.assignments) > 100
        assert getattr(named, "count", 1 + len(named.assignments)) == 1 + len(named.assignments)
        assert getattr(named, "num_partitions", -1) == -1

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

    def test_those_of_a_long_run_are_counted_to_a_tenth_of_a_millisecond(self) -> None:
        counted = Latencies(0.25)
        counted.add([0.125])
        counted.add([1.0])
        assert counted.count == 4
        assert [round(counted.percentile(share), 3) for share in (0, 0.25, 0.5, 0.75)] == [0.125, 0.5, 0.75, 1.0]
        assert str(counted) == "p50 750.1, p99 1000.0, max 1000 ms"
        assert Latencies(0.25).percentile(0.99) == 0.0

    def test_a_request_that_still_waits_counts(self) -> None:
        assert corrected([], 0.003, waiting_s=0.002) == [0.002]
        assert percentile([], 0.99) == 0.0


class TestTables:
    ROW = Row("Fetch", 11, "topics", "known", 1000, 1, 0.5, False, 9, 0.020, 0.030, 3 << 20, 0.0, [])

    def test_the_worst_of_each_api_and_each_attack_beyond_a_limit(self) -> None:
        limits = Limits(Bounds(0.050, 0.250))
        late = self.ROW._replace(version=4, p99_s=0.060, max_s=0.300)
        other = self.ROW._replace(api="Produce", memory=(129 << 20) + 64 * 1000)
        lines = list(table([self.ROW, late, other], limits))
        assert lines[2] == "| Fetch | 2 | 60.0 | 300.0 | 3 | 1 |"
        assert lines[3] == "| Produce | 1 | 20.0 | 30.0 | 129 | 1 |"
        assert lines[-2:] == [
            "| Fetch v4 | topics | known | 1000 | 60.0 | 300.0 | p99, max |",
            "| Produce v11 | topics | known | 1000 | 20.0 | 30.0 | memory |",
        ]
        assert list(table([self.ROW], limits))[2:] == ["| Fetch | 1 | 20.0 | 30.0 | 3 | 0 |"]

    def test_the_memory_of_a_request_has_a_bound(self) -> None:
        assert Limits(memory_bytes=10, memory_per_byte=2, budget=100).memory(20) == 50
        assert Limits(memory_bytes=10, memory_per_byte=2, budget=100).memory(200) == 110

    def test_the_highest_versions_come_first(self) -> None:
        served = [(ApiKey.METADATA, 0, 3), (ApiKey.HEARTBEAT, 0, 1)]
        order = [(shape.api, shape.version) for shape, _ in attacks(iter(served), "all")]
        assert list(dict.fromkeys(order)) == [
            ("Metadata", 3), ("Heartbeat", 1), ("Metadata", 0), ("Heartbeat", 0), ("Metadata", 1), ("Metadata", 2)
        ]  # fmt: skip
        assert {each for each, _ in attacks(iter(served), "ends", ["Metadata"])} == {
            *shapes(ApiKey.METADATA, 0), *shapes(ApiKey.METADATA, 3)
        }  # fmt: skip

    def test_runs_of_the_fuzzer_add_up(self, tmp_path: Path) -> None:
        one = {"frames": 1000, "seconds": 2.0, "tracebacks": 0, "peak_mib": 50, "p99_ms": 9.0, "max_ms": 20.0}
        added(tmp_path / "runs", one)
        assert added(tmp_path / "runs", {**one, "peak_mib": 60, "max_ms": 19.0}) == (
            "2 runs: 2,000 frames in 4 s, 0 tracebacks, memory at most 60 MiB, "
            "second client: worst p99 9.0 ms, worst 20.0 ms"
        )

    def test_options(self) -> None:
        assert bounds_of(fuzzer.arguments(["--p99-ms", "70"])) == Bounds(0.070, 0.250)
        assert bounds_of(fairness.arguments([])) == Bounds()
        assert fairness.arguments([]).topics == 10_000


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
        assert generator.conversation(3) == other.conversation(3)
        assert len({generator.conversation(each).kind for each in range(300)}) == 9

    @pytest.mark.slow
    def test_nearly_all_frames_are_small(self, generator: Generator) -> None:
        found = [generator.conversation(each) for each in range(4 * frames.BATCH)]
        heavy = [each for each in found if each.kind in ("bomb", "large")]
        assert [each.number % frames.BATCH for each in heavy] == [*frames.HEAVY_PLACES] * 4
        others = [each for each in found if each not in heavy]
        assert sum(each.frames for each in others) > 50 * len(others)
        assert sum(len(each.data) for each in others) < 1000 * sum(each.frames for each in others)

    def test_the_judge_predicts_whether_a_connection_survives_a_frame(self) -> None:
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
