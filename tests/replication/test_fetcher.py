"""The behaviour of a fetcher on its leader's answers, and on errors of its own disk."""

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from struct import pack_into

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import LogConfig
from kafkapy.network.peer import PeerUnreachableError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset as AnsweredEpoch,
)
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kafkapy.records.batch import read_header
from kafkapy.replication import fetcher
from kafkapy.replication.copying import BATCHES_IN_A_STEP
from kafkapy.replication.fetcher import FetcherSettings
from kafkapy.replication.fetchers import ReplicaFetchers
from kafkapy.replication.fetching import FetchLimits, FetchWish, read_one
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import Turns
from kafkapy.types import TopicPartition
from tests.replication.leader import BACKOFF_MS, LEADER, SETTINGS, Leader, Pair, answer_from, bytes_of, fetcher_context
from tests.replication.logs import ME, TP, Node, batch, leave_gap, state
from tests.storage.slow_flusher import SlowFlusher


class BusyClock(ManualClock):
    """``lost_ms`` pass whenever somebody looks at it: the machine is busy."""

    lost_ms = 0.0
    passed_ms = 0.0

    def monotonic_s(self) -> float:
        self.passed_ms += self.lost_ms
        return super().monotonic_s() + self.passed_ms / 1000


def run(
    tmp_path: Path,
    scenario: Callable[[Pair], Awaitable[None]],
    config: LogConfig | None = None,
    clock: ManualClock | None = None,
) -> None:
    """Run a scenario with a leader in epoch 0; its fetchers end with it."""

    async def limited() -> None:
        pair = Pair(tmp_path, config, clock)
        pair.leader.lead()
        await asyncio.wait_for(scenario(pair), 20)
        pair.fetchers.close()
        await pair.settle()

    asyncio.run(limited())


def fetched(**fields: object) -> Callable[[Message], Message]:
    """A response about ``t-0``."""
    data = PartitionData(0, **{"records": b"", **fields})  # type: ignore[arg-type]  # what each test says

    def answer(request: Message) -> Message:
        assert isinstance(request, FetchRequest), request
        return FetchResponse(responses=[FetchableTopicResponse(TP.topic, partitions=[data])])

    return answer


def epoch_error(code: int) -> Callable[[Message], Message]:
    def answer(request: Message) -> Message:
        assert isinstance(request, OffsetForLeaderEpochRequest), request
        row = AnsweredEpoch(code, 0)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(TP.topic, [row])])

    return answer


def offset_answer(offset: int, code: int = 0) -> Callable[[Message], Message]:
    def answer(_: Message) -> Message:
        row = ListOffsetsPartitionResponse(0, code, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(TP.topic, [row])])

    return answer


def test_batches_come_as_the_leader_wrote_them_and_the_high_watermark_one_fetch_later(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(3)
        pair.leader.append(2)
        pair.follow()
        await pair.settle()
        assert pair.ends == (0, 0, 5)
        assert pair.has_the_same
        assert pair.leader.log.high_watermark == 5
        pair.clock.advance(500)
        await pair.settle()
        assert pair.ends == (0, 5, 5)
        assert pair.log.leader_epochs.entries == [(0, 0)]
        first = pair.leader.requests[0]
        assert isinstance(first, FetchRequest)
        assert (first.replica_id, first.max_wait_ms, first.min_bytes, first.session_epoch) == (ME, 500, 1, 0)
        (asked,) = first.topics[0].partitions
        assert (asked.current_leader_epoch, asked.log_start_offset, asked.last_fetched_epoch) == (0, 0, -1)

    run(tmp_path, scenario)


def test_a_corrupt_batch_is_refused_with_one_line_and_fetched_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(pair: Pair) -> None:
        broken = batch(2)
        broken[-1] ^= 1
        pair.leader.append(2)
        pair.leader.answers = [fetched(records=bytes(broken))] * 2
        pair.follow()
        await pair.settle()
        assert (pair.ends, len(pair.leader.requests)) == ((0, 0, 0), 1)
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert (pair.ends, len(pair.leader.requests)) == ((0, 0, 0), 2)
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert pair.has_the_same

    with caplog.at_level(logging.WARNING):
        run(tmp_path, scenario)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "t-0: fetching from broker 2 is tried again: what came at offset 0 is refused: "
        "The batch at offset 0 of t-0 is corrupt"
    )


def test_bytes_that_are_no_batch_are_refused(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.answers = [fetched(records=bytes(100))]
        pair.follow()
        await pair.settle()
        assert pair.ends == (0, 0, 0)
        pair.leader.append()
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario)


def test_a_leader_that_can_not_be_reached_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append()
        pair.leader.is_down = True
        pair.follow()
        for _ in range(3):
            await pair.settle()
            pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert len(pair.leader.requests) == 4
        pair.leader.is_down = False
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert pair.has_the_same

    with caplog.at_level(logging.INFO, "kafkapy.replication"):
        run(tmp_path, scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "Fetching from broker 2 fails and is tried again: broker 2 is down",
        "Broker 2 answers again: its partitions are fetched",
    ]


@pytest.mark.parametrize("parts", [1.5, 2.5, 3.5])
def test_a_back_off_that_ends_while_the_fetcher_looks_is_not_missed(tmp_path: Path, parts: float) -> None:
    """The clock moves on by a part of the back-off at each look, so that the back-off ends between two looks."""
    clock = BusyClock()

    async def scenario(pair: Pair) -> None:
        pair.leader.append()
        pair.leader.is_down = True
        clock.lost_ms = BACKOFF_MS / parts
        pair.follow()
        for _ in range(20):
            await pair.settle()
            clock.advance(BACKOFF_MS)
        assert len(pair.leader.requests) > 2
        pair.leader.is_down = False
        for _ in range(20):
            await pair.settle()
            clock.advance(BACKOFF_MS)
        assert pair.has_the_same

    run(tmp_path, scenario, clock=clock)


@pytest.mark.parametrize(
    ("code", "is_usual"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
    ],
)
def test_errors_of_a_leader_that_does_not_know_yet_are_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, is_usual: bool
) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append()
        pair.leader.answers = [fetched(error_code=code)]
        pair.follow()
        await pair.settle()
        assert (pair.ends, len(pair.leader.requests)) == ((0, 0, 0), 1)
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario)
    assert bool([each for each in caplog.records if each.levelname == "WARNING"]) is not is_usual


def test_a_fenced_partition_waits_for_the_next_epoch(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append()
        pair.leader.lead(epoch=1)
        pair.follow(epoch=0)
        await pair.settle()
        pair.clock.advance(10 * BACKOFF_MS)
        await pair.settle()
        assert (pair.ends, len(pair.leader.requests)) == ((0, 0, 0), 1)
        pair.follow(epoch=1)
        await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario)


def test_while_truncating_errors_are_taken_as_those_of_a_fetch(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(2)
        pair.follow()
        await pair.settle()
        pair.leader.lead(epoch=1)
        pair.leader.append(1)
        pair.leader.requests.clear()
        pair.leader.answers = [
            epoch_error(ErrorCode.UNKNOWN_LEADER_EPOCH),
            lambda _: OffsetForLeaderEpochResponse(topics=[]),
            epoch_error(ErrorCode.FENCED_LEADER_EPOCH),
        ]
        pair.follow(epoch=1)
        for _ in range(5):
            await pair.settle()
            pair.clock.advance(BACKOFF_MS)
        assert [type(each) for each in pair.leader.requests] == [OffsetForLeaderEpochRequest] * 3
        pair.leader.lead(epoch=2)
        pair.leader.is_down = True
        pair.follow(epoch=2)
        await pair.settle()
        pair.leader.is_down = False
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert pair.has_the_same
        assert pair.log.leader_epochs.entries == [(0, 0), (1, 2)]

    run(tmp_path, scenario)


def test_a_log_without_epochs_is_cut_at_its_high_watermark(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.node.partition(leader=ME, epoch=0, isr=(ME, LEADER), replicas=(ME, LEADER))
        pair.node.replicas.append(TP, batch(3))
        pair.log.leader_epochs.clear()
        pair.leader.lead(epoch=1)
        pair.leader.append(4, producer_id=7, producer_epoch=0, base_sequence=0)
        pair.follow(epoch=1)
        await pair.settle()
        assert isinstance(pair.leader.requests[0], FetchRequest)
        assert pair.has_the_same

    run(tmp_path, scenario)


def test_records_that_the_leader_does_not_have_are_cut_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(3)
        pair.follow()
        await pair.settle()
        pair.node.partition(leader=ME, epoch=1, isr=(ME,), replicas=(ME, LEADER))
        pair.node.replicas.append(TP, batch(4))
        assert pair.ends == (0, 7, 7)
        pair.leader.lead(epoch=2)
        pair.leader.append(2, producer_id=7, producer_epoch=0, base_sequence=0)
        pair.follow(epoch=2)
        await pair.settle()
        assert pair.log.log_end_offset == 5
        assert pair.has_the_same
        assert pair.log.leader_epochs.entries == [(0, 0), (2, 3)]

    with caplog.at_level(logging.INFO, "kafkapy.replication"):
        run(tmp_path, scenario)
    assert "t-0 is truncated to offset 3, below its high watermark 7" in caplog.text
    assert "t-0 was truncated from offset 7 to 3" in caplog.text


def test_records_above_the_high_watermark_that_the_leader_has_stay(tmp_path: Path) -> None:
    """KIP-101: if the follower truncated them and the leader was lost, acknowledged records would be lost."""

    async def scenario(pair: Pair) -> None:
        pair.leader.append(5)
        pair.follow()
        await pair.settle()
        assert pair.ends == (0, 0, 5)
        pair.leader.lead(epoch=1)
        pair.follow(epoch=1)
        await pair.settle()
        last = pair.leader.requests[-1]
        assert isinstance(last, FetchRequest)
        assert last.topics[0].partitions[0].fetch_offset == 5
        assert pair.log.truncations == 0

    run(tmp_path, scenario)


def test_a_long_response_is_dropped_where_another_leader_and_isr_comes_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(pair: Pair) -> None:
        for _ in range(2 * BATCHES_IN_A_STEP):
            pair.leader.append()
        is_first = True

        async def interrupt() -> None:
            nonlocal is_first
            if pair.log.log_end_offset and is_first:
                is_first = False
                pair.follow(epoch=1, leader=-1)

        monkeypatch.setattr(fetcher, "pause", interrupt)
        pair.follow()
        await pair.settle()
        assert pair.ends == (0, 0, BATCHES_IN_A_STEP)
        pair.leader.lead(epoch=2)
        pair.follow(epoch=2)
        await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario)


def test_a_log_that_is_followed_no_more_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the cut its broker becomes the leader; the old message format has no leader epochs."""
    config = LogConfig(message_format_version="0.10.0")

    async def scenario(pair: Pair) -> None:
        async def lead() -> None:
            monkeypatch.undo()
            partition = pair.node.partition(leader=ME, epoch=1, isr=(ME, LEADER), replicas=(ME, LEADER))
            partition.append(batch())

        monkeypatch.setattr(fetcher, "pause", lead)
        pair.follow()
        await pair.settle()
        assert (pair.log.high_watermark, pair.log.log_end_offset) == (0, 1)

    run(tmp_path, scenario, config)


def test_a_short_response_needs_no_turn_of_long_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A response begins a slice, as a request does. Each turn would be one more iteration of a busy loop or two."""
    monkeypatch.setattr("kafkapy.turns.FIRST_SLICE_S", 60)

    async def scenario(pair: Pair) -> None:
        pair.leader.append()
        pair.follow()
        await pair.settle()
        asked, next_turn = [], Turns.next_turn

        async def counted(queue: Turns) -> None:
            asked.append(queue)
            await next_turn(queue)

        monkeypatch.setattr(Turns, "next_turn", counted)
        for _ in range(3):
            pair.leader.append()
            await pair.settle()
            assert pair.has_the_same
        assert not asked

    run(tmp_path, scenario)


def test_a_leader_that_knows_only_earlier_epochs_is_asked_more_than_once(tmp_path: Path) -> None:
    """KIP-279: the leader's answer names an epoch that this log does not have."""

    async def scenario(pair: Pair) -> None:
        pair.leader.append(2)
        pair.follow()
        await pair.settle()
        for epoch in (3, 4):
            pair.node.partition(leader=ME, epoch=epoch, isr=(ME,), replicas=(ME, LEADER))
            pair.node.replicas.append(TP, batch(epoch))
        pair.leader.lead(epoch=2)
        pair.leader.append(1)
        pair.leader.lead(epoch=5)
        pair.leader.append(1)
        pair.leader.requests.clear()
        pair.follow(epoch=5)
        await pair.settle()
        asked = [
            each.topics[0].partitions[0].leader_epoch
            for each in pair.leader.requests
            if isinstance(each, OffsetForLeaderEpochRequest)
        ]
        assert asked == [4, 0]
        assert pair.has_the_same
        assert pair.log.leader_epochs.entries == [(0, 0), (2, 2), (5, 3)]

    run(tmp_path, scenario)


def test_a_fetch_response_may_name_the_diverging_epoch(tmp_path: Path) -> None:
    """KIP-595: leaders compare the epoch of the follower's last record."""

    async def scenario(pair: Pair) -> None:
        pair.leader.append(5)
        pair.follow()
        await pair.settle()
        pair.leader.answers = [fetched(diverging_epoch=EpochEndOffset(0, 5))]  # nothing to cut
        pair.clock.advance(500)
        await pair.settle()
        assert (pair.log.log_end_offset, len(pair.leader.requests)) == (5, 3)
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        pair.leader.log.truncate_to(0)
        pair.leader.append(3, producer_id=7, producer_epoch=0, base_sequence=0)
        pair.clock.advance(500)
        await pair.settle()
        assert pair.log.log_end_offset == 3
        assert (pair.leader.requests[-1].topics[0].partitions[0].last_fetched_epoch) == 0  # type: ignore[attr-defined]

    run(tmp_path, scenario)


def test_a_log_that_ends_after_the_leaders_is_cut_to_its_end(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(5)
        pair.follow()
        await pair.settle()
        pair.leader.answers = [
            fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
            offset_answer(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
            offset_answer(3),
            fetched(),
        ]
        pair.clock.advance(500)
        await pair.settle()
        assert pair.log.log_end_offset == 5
        pair.leader.requests.clear()
        pair.leader.tell()
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert [each.topics[0].partitions[0].timestamp for each in pair.leader.requests[1:2]] == [-1]  # type: ignore[attr-defined]
        assert pair.leader.requests[1].replica_id == ME  # type: ignore[attr-defined]
        fetches = [each for each in pair.leader.requests if isinstance(each, FetchRequest)]
        assert fetches[1].topics[0].partitions[0].fetch_offset == 3

    run(tmp_path, scenario)


def test_a_log_that_ends_before_the_leaders_start_begins_again_there(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(5)
        pair.follow()
        await pair.settle()
        pair.follow(epoch=1, leader=-1)
        pair.leader.lead(epoch=2, isr=(LEADER,))
        pair.leader.append(5)
        pair.leader.log.roll()
        pair.leader.append(1)
        pair.leader.log.advance_log_start_offset(10)
        pair.leader.log.delete_oldest_segments(list(pair.leader.log.segments)[:1])
        pair.follow(epoch=2)
        await pair.settle()
        assert (pair.log.log_start_offset, pair.log.log_end_offset) == (10, 11)
        assert pair.has_the_same

    run(tmp_path, scenario)


def test_an_offset_that_is_out_of_range_for_a_moment_only_is_fetched_again(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(5)
        pair.follow()
        pair.leader.answers = [fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)]
        await pair.settle()
        assert (pair.ends, len(pair.leader.requests)) == ((0, 0, 0), 3)
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario)


def test_an_empty_replica_takes_the_batch_within_which_the_leaders_log_starts(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.lead(epoch=1, isr=(LEADER,))
        pair.leader.append(5)
        pair.leader.append(5)
        pair.leader.log.advance_log_start_offset(3)
        pair.follow(epoch=1)
        await pair.settle()
        assert pair.ends == (3, 10, 10)
        assert pair.has_the_same

    run(tmp_path, scenario)


def test_the_log_start_follows_the_leaders(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(5)
        pair.follow()
        await pair.settle()
        pair.leader.log.advance_log_start_offset(4)
        pair.clock.advance(500)
        await pair.settle()
        assert pair.ends == (4, 5, 5)
        pair.leader.answers = [fetched(high_watermark=5, log_start_offset=9)]
        pair.clock.advance(500)
        await pair.settle()
        assert pair.ends == (4, 5, 5)

    run(tmp_path, scenario)


def questions(pair: Pair) -> list[FetchRequest]:
    """The fetches that a follower sends as a consumer."""
    return [each for each in pair.leader.requests if isinstance(each, FetchRequest) and each.replica_id < 0]


async def waited(pair: Pair, fetches: int) -> None:
    """Let so many fetches without news end."""
    for _ in range(fetches):
        pair.clock.advance(SETTINGS.limits.max_wait_ms)
        await pair.settle()


@pytest.mark.parametrize("flush", ["kafka", "ack"])
def test_a_gap_at_the_end_of_the_leaders_log_is_filled(tmp_path: Path, flush: str) -> None:
    """Compaction before Apache Kafka 4.1 may remove all batches from an offset up to the log's end."""

    async def scenario(pair: Pair) -> None:
        pair.leader.append(2)
        leave_gap(pair.leader.log, 9)
        pair.follow()
        await pair.settle()
        assert pair.ends == (0, 0, 2)
        assert pair.leader.log.high_watermark == 9, "the follower lacks nothing"
        await waited(pair, 2)
        assert (pair.ends, questions(pair)) == ((0, 2, 2), [])
        await waited(pair, 2)
        assert pair.ends == (0, 9, 9)
        (question,) = questions(pair)
        (asked,) = question.topics[0].partitions
        assert (question.session_id, question.session_epoch, question.max_wait_ms) == (0, -1, 0)
        assert (asked.fetch_offset, asked.current_leader_epoch) == (2, 0)
        pair.leader.append(3)
        await pair.settle()
        await waited(pair, 6)
        assert pair.ends == (0, 12, 12)
        assert len(questions(pair)) == 1
        assert pair.log.leader_epochs.entries == [(0, 0)]
        assert [segment.base_offset for segment in pair.log.segments] == [0], "no segment ends before another begins"
        found = pair.log.read(2, 61).records
        header = read_header(bytes_of(found))
        assert (header.record_count, header.next_offset, header.max_timestamp) == (0, 9, -1)

    run(tmp_path, scenario, LogConfig(kafkapy_flush=flush))


def test_an_epoch_that_began_within_the_gap_is_no_divergence(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(2)
        pair.leader.log.leader_epochs.assign(1, 5)
        leave_gap(pair.leader.log, 9)
        pair.leader.lead(epoch=2)
        pair.follow(epoch=2)
        await pair.settle()
        await waited(pair, 8)
        assert pair.ends == (0, 9, 9)
        assert len(questions(pair)) == 1
        pair.leader.append(1)
        await pair.settle()
        await waited(pair, 2)
        assert pair.ends == (0, 10, 10)
        assert pair.log.leader_epochs.entries == [(0, 0), (2, 8)]
        pair.follow(epoch=3)
        pair.leader.lead(epoch=3)
        await pair.settle()
        await waited(pair, 2)
        assert pair.ends == (0, 10, 10)

    run(tmp_path, scenario)


def test_a_follower_that_gets_no_records_from_a_throttled_leader_skips_none(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(2)
        pair.leader.log.update_high_watermark(2)

        async def throttled(request: Message) -> Message:
            assert isinstance(request, FetchRequest)
            pair.leader.answers = [throttled]
            if request.replica_id < 0:
                return answer_from(pair.leader.node, request)
            await pair.leader._news(request.max_wait_ms)
            return fetched(high_watermark=2)(request)

        pair.leader.answers = [throttled]
        pair.follow()
        await pair.settle()
        await waited(pair, 3)
        assert (pair.ends, len(questions(pair))) == ((0, 0, 0), 1)
        await waited(pair, 1)
        assert (pair.ends, len(questions(pair))) == ((0, 0, 0), 1), "not asked again at once"
        await waited(pair, 1)
        assert (pair.ends, len(questions(pair))) == ((0, 0, 0), 2)
        pair.leader.answers = []
        await waited(pair, 2)
        assert pair.ends == (0, 2, 2)

    run(tmp_path, scenario)


@pytest.mark.parametrize("outcome", ["error", "down", "nothing", "disk", "other epoch"])
def test_a_question_for_a_gap_that_fails_is_asked_again(
    tmp_path: Path, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(2)
        leave_gap(pair.leader.log, 9)
        pair.follow()
        await pair.settle()
        await waited(pair, 2)

        async def fails(request: Message) -> Message:
            assert isinstance(request, FetchRequest)
            if request.replica_id >= 0:
                await pair.leader._news(request.max_wait_ms)
                pair.leader.answers.insert(0, fails)
                return fetched(high_watermark=9)(request)
            if outcome == "down":
                raise PeerUnreachableError("no")
            if outcome == "other epoch":
                pair.leader.lead(epoch=1)
                pair.follow(epoch=1)
            if outcome == "disk":
                monkeypatch.setattr(pair.node.logs.storage.files, "write_at", refuse_once)
            if outcome in ("disk", "other epoch"):
                return fetched(high_watermark=9)(request)
            return (
                fetched(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)(request) if outcome == "error" else FetchResponse()
            )

        def refuse_once(*_: object, **__: object) -> None:
            monkeypatch.undo()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        pair.leader.answers = [fails]
        await waited(pair, 2)
        assert pair.ends == (0, 2, 2)
        pair.leader.answers = []
        await waited(pair, 8)
        assert pair.ends == (0, 9, 9)

    run(tmp_path, scenario)


def test_a_partition_that_is_followed_no_more_is_not_asked_about(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(2)
        leave_gap(pair.leader.log, 9)
        pair.follow()
        await pair.settle()
        await waited(pair, 2)
        pair.node.replicas.become_leader_or_follower(TP, state(leader=-1, epoch=1, isr=(LEADER, ME)))
        await waited(pair, 4)
        assert (pair.ends, questions(pair)) == ((0, 2, 2), [])

    run(tmp_path, scenario)


def test_a_follower_at_a_gap_lacks_nothing_and_one_that_was_given_no_room_does(tmp_path: Path) -> None:
    leader = Leader(tmp_path, ManualClock())
    leader.lead()
    leader.append(2)
    leave_gap(leader.log, 9)
    limits = FetchLimits(0, 1, 100, replica_id=ME)
    for offset, reached in ((0, 0), (1, 1), (2, 9), (5, 9), (9, 9)):
        read_one(leader.node.replicas, TP, FetchWish(offset, 100), limits, 0, min_one_batch=False)
        assert leader.node.replicas.partitions[TP].remotes[ME].log_end_offset == reached


def test_batches_of_a_segment_larger_than_the_followers_are_taken_one_by_one(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(3)
        pair.leader.append(3)
        pair.node.config = LogConfig(segment_bytes=100)
        pair.follow()
        await pair.settle()
        assert pair.log.log_end_offset == 6
        assert len(pair.log.segments) == 2

    run(tmp_path, scenario)


def test_a_batch_that_is_cut_short_is_fetched_again(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(3)
        pair.leader.answers = [fetched(records=bytes(batch(3))[:40])]
        pair.follow()
        await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario)


def test_a_response_after_another_leader_and_isr_is_dropped(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        waiting: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        pair.leader.answers = [lambda _: waiting]
        pair.leader.append(2)
        pair.follow()
        await pair.settle()
        pair.follow(epoch=1, leader=-1)
        waiting.set_result(fetched(records=bytes(batch(2)), high_watermark=2)(pair.leader.requests[0]))
        await pair.settle()
        assert pair.ends == (0, 0, 0)
        pair.node.replicas.stop_replica(TP, 2, delete=False)
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert len(pair.leader.requests) == 1

    run(tmp_path, scenario)


def test_a_partition_of_which_the_response_says_nothing_is_fetched_again(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        other = PartitionData(5, records=b"")
        pair.leader.answers = [
            lambda _: FetchResponse(responses=[FetchableTopicResponse(TP.topic, partitions=[other])]),
        ]
        pair.leader.append()
        pair.follow()
        await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario)


def test_a_session_that_the_leader_has_lost_begins_anew(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append()
        pair.leader.answers = [
            lambda _: FetchResponse(session_id=8),
            lambda _: FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
            lambda _: FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
        ]
        pair.follow()
        await pair.settle()
        asked = [(each.session_id, each.session_epoch) for each in pair.leader.requests]  # type: ignore[attr-defined]
        assert asked == [(0, 0), (8, 1), (0, 0)]
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario)


def test_records_that_the_disk_refuses_are_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append()
        pair.follow()
        files = pair.node.logs.storage.files

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as full:
            full.setattr(files, "replace", refuse)  # of the epochs
            await pair.settle()
            assert pair.ends == (0, 0, 0)
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert pair.has_the_same
        pair.leader.lead(epoch=1)
        with monkeypatch.context() as full:
            full.setattr(type(pair.log), "truncate_to", refuse)
            pair.follow(epoch=1)
            await pair.settle()
        assert len(pair.leader.requests) >= 2
        pair.clock.advance(BACKOFF_MS)
        pair.leader.append()
        await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario)
    assert "fetching from broker 2 is tried again" in caplog.text


def test_a_restart_that_the_disk_refuses_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.lead(epoch=1, isr=(LEADER,))
        pair.leader.append(5)
        pair.leader.log.roll()
        pair.leader.append(1)
        pair.leader.log.advance_log_start_offset(5)

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        pair.follow(epoch=1)
        with monkeypatch.context() as full:
            full.setattr(type(pair.log), "truncate_fully_and_start_at", refuse)
            await pair.settle()
            assert pair.ends == (0, 0, 0)
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert pair.ends == (5, 6, 6)

    run(tmp_path, scenario)


def test_a_response_that_comes_after_the_leader_epoch_ends_the_session(tmp_path: Path) -> None:
    """The leader takes what it has answered for known: in this session it would not name the high watermark again."""

    async def scenario(pair: Pair) -> None:
        late: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        answer = fetched()(FetchRequest())
        assert isinstance(answer, FetchResponse)
        answer.session_id = 7
        pair.leader.answers = [lambda _: answer, lambda _: late]
        pair.follow()
        await pair.settle()
        pair.leader.lead(epoch=1)
        pair.follow(epoch=1)
        late.set_result(answer)
        await pair.settle()
        fetches = [request for request in pair.leader.requests if isinstance(request, FetchRequest)]
        assert [(each.session_id, each.session_epoch) for each in fetches[:3]] == [(0, 0), (7, 1), (7, 0)]

    run(tmp_path, scenario)


def test_with_flush_ack_the_next_fetch_waits_for_the_disk(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        flusher = SlowFlusher()
        pair.node.logs.storage.flusher = flusher
        pair.leader.append(2)
        pair.follow()
        await pair.settle()
        assert (pair.log.log_end_offset, len(pair.leader.requests)) == (2, 1)
        flusher.catch_up()
        await pair.settle()
        assert len(pair.leader.requests) == 2

    run(tmp_path, scenario, LogConfig(kafkapy_flush="ack"))


def test_with_flush_ack_a_follower_fetches_after_an_unclean_stop(tmp_path: Path) -> None:
    """No fsync is running for the records that the start has recovered: following requests one."""

    async def scenario(pair: Pair) -> None:
        pair.leader.append(2)
        pair.follow()
        await pair.settle()
        pair.fetchers.close()
        pair.node.logs.abandon()
        again = Node(tmp_path / "follower", LogConfig(kafkapy_flush="ack"), clock=pair.clock)
        context = fetcher_context(again, pair.throttles, SETTINGS)
        again.replicas.follow_by(lambda: ReplicaFetchers(ME, context, lambda _: pair.leader))
        assert again.partition(leader=LEADER, epoch=0, isr=(LEADER, ME), replicas=(LEADER, ME)).log.log_end_offset == 2
        pair.leader.append(1)
        await pair.settle()
        assert again.replicas.partitions[TP].log.log_end_offset == 3

    run(tmp_path, scenario, LogConfig(kafkapy_flush="ack"))


def follow_two_more(pair: Pair) -> None:
    """Give the follower records 3 and 4, which the leader does not have."""
    extra = batch(2)
    pack_into(">q", extra, 0, 3)
    pair.node.replicas.partitions[TP].append_as_follower(extra)


def test_with_flush_ack_a_follower_fetches_after_a_truncation(tmp_path: Path) -> None:
    """The remaining part of the segment that is cut has to be fsynced again before the next fetch."""

    async def scenario(pair: Pair) -> None:
        flusher = SlowFlusher()
        pair.node.logs.storage.flusher = flusher
        pair.leader.append(3)
        pair.follow()
        await pair.settle()
        flusher.catch_up()
        await pair.settle()
        follow_two_more(pair)
        flusher.catch_up()
        await pair.settle()
        pair.leader.lead(epoch=1)
        pair.leader.append(1)
        pair.follow(epoch=1)
        await pair.settle()
        assert pair.log.log_end_offset == 3, "the two records that the leader does not have are cut off"
        for _ in range(3):
            flusher.catch_up()
            await pair.settle()
        assert pair.has_the_same
        assert pair.log.durability.data_offset == 4

    run(tmp_path, scenario, LogConfig(kafkapy_flush="ack"))


def test_with_flush_ack_a_truncation_that_fails_half_way_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(3)
        pair.follow()
        await pair.settle()
        follow_two_more(pair)
        await pair.settle()
        log = pair.log

        def refuse(*_: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        with monkeypatch.context() as patch:
            patch.setattr(type(log.segments.active), "truncate_to", refuse)
            pair.leader.lead(epoch=1)
            pair.follow(epoch=1)
            await pair.settle()
        pair.leader.append(1)
        for _ in range(3):
            pair.clock.advance(BACKOFF_MS)
            await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario, LogConfig(kafkapy_flush="ack"))


def test_with_flush_ack_a_follower_fetches_after_its_log_begins_again(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.leader.append(3)
        pair.follow()
        await pair.settle()
        pair.fetchers.stop(TP)
        pair.leader.append(5)
        log = pair.leader.log
        log.update_high_watermark(log.log_end_offset)
        log.roll()
        log.advance_log_start_offset(log.log_end_offset)
        pair.leader.append(2)
        pair.follow(epoch=1)
        pair.leader.lead(epoch=1)
        for _ in range(3):
            await pair.settle()
            pair.clock.advance(BACKOFF_MS)
        assert (pair.log.log_start_offset, pair.log.log_end_offset) == (8, 10)
        assert pair.log.durability.data_offset == 10

    run(tmp_path, scenario, LogConfig(kafkapy_flush="ack"))


def test_with_flush_ack_a_disk_that_refuses_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(pair: Pair) -> None:
        flusher = SlowFlusher()
        pair.node.logs.storage.flusher = flusher
        pair.leader.append(2)
        pair.follow()
        await pair.settle()

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as full:
            full.setattr(type(pair.node.logs.storage.files), "sync", refuse)
            flusher.catch_up()
            await pair.settle()
        assert len(pair.leader.requests) == 1
        for _ in range(2):
            pair.clock.advance(BACKOFF_MS)
            await pair.settle()
            flusher.catch_up()
            await pair.settle()
        assert len(pair.leader.requests) > 1

    run(tmp_path, scenario, LogConfig(kafkapy_flush="ack"))
    assert "t-0: fetching from broker 2 is tried again" in caplog.text


def test_an_unexpected_failure_is_logged_and_does_not_end_the_fetcher(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(pair: Pair) -> None:
        def fail(_: Message) -> Message:
            raise ZeroDivisionError("a bug")

        pair.leader.append()
        pair.leader.answers = [fail]
        pair.follow()
        await pair.settle()
        pair.clock.advance(BACKOFF_MS)
        await pair.settle()
        assert pair.has_the_same

    run(tmp_path, scenario)
    assert "Fetching from broker 2 failed, trying again" in caplog.text


def test_after_the_close_nothing_is_followed(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.follow()
        await pair.settle()
        pair.fetchers.close()
        pair.leader.append()
        pair.follow(epoch=1)
        pair.fetchers.made_durable(TP)
        await pair.settle()
        assert pair.ends == (0, 0, 0)

    run(tmp_path, scenario)


def test_partitions_are_shared_among_the_fetchers_of_a_leader(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        clients: list[str] = []

        def channel_of(client_id: str) -> object:
            clients.append(client_id)
            return pair.leader

        fetchers = ReplicaFetchers(ME, pair.context(), channel_of, per_leader=2)  # type: ignore[arg-type]
        pair.node.replicas.follow_by(lambda: fetchers)
        for index in range(4):
            pair.leader.answers.append(lambda _: None)
            pair.node.replicas.become_leader_or_follower(
                TopicPartition("t", index), state(leader=LEADER, isr=(LEADER, ME), replicas=(LEADER, ME))
            )
        await pair.settle()
        asked = [
            sorted(each.partition for topic in request.topics for each in topic.partitions)
            for request in pair.leader.requests
            if isinstance(request, FetchRequest)
        ]
        assert {(0, 2), (1, 3)} <= {tuple(each) for each in asked} <= {(0, 2), (1, 3), (0,)}
        assert clients == ["broker-1-fetcher-0", "broker-1-fetcher-1"]
        fetchers.close()
        await pair.settle()

    run(tmp_path, scenario)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_the_number_of_fetchers_changes_and_nothing_is_lost(tmp_path: Path, before: int, after: int) -> None:
    async def scenario(pair: Pair) -> None:
        clients: list[str] = []

        def channel_of(client_id: str) -> object:
            clients.append(client_id)
            return pair.leader

        fetchers = ReplicaFetchers(ME, pair.context(), channel_of, per_leader=before)  # type: ignore[arg-type]
        pair.node.replicas.follow_by(lambda: fetchers)
        places = [TopicPartition("t", index) for index in range(6)]
        for node in (pair.leader.node, pair.node):
            for place in places:
                node.replicas.become_leader_or_follower(
                    place, state(leader=LEADER, epoch=1, isr=(LEADER, ME), replicas=(LEADER, ME))
                )

        async def all_follow() -> None:
            for place in places:
                pair.leader.node.replicas.append(place, batch(3))
            pair.clock.advance(500)
            await pair.settle()
            pair.clock.advance(500)
            await pair.settle()
            mine, leaders = (
                [node.replicas.partitions[place].log.log_end_offset for place in places]
                for node in (pair.node, pair.leader.node)
            )
            assert mine == leaders

        await all_follow()
        assert clients == [f"broker-1-fetcher-{number}" for number in range(before)]
        fetchers.resize(after)
        await all_follow()
        fetchers.resize(before)
        await all_follow()
        assert clients == [f"broker-1-fetcher-{number}" for number in range(max(before, after))]
        fetchers.close()
        fetchers.resize(after)
        await pair.settle()

    run(tmp_path, scenario)


def test_the_settings_are_the_brokers() -> None:
    keys = {
        "broker.id": "3",
        "replica.fetch.wait.max.ms": "7",
        "replica.fetch.min.bytes": "2",
        "replica.fetch.response.max.bytes": "99",
        "replica.fetch.max.bytes": "55",
        "replica.fetch.backoff.ms": "11",
    }
    settings = FetcherSettings.of(BrokerConfig.from_properties(keys))
    limits = settings.limits
    assert (limits.max_wait_ms, limits.min_bytes, limits.max_bytes, limits.replica_id) == (7, 2, 99, 3)
    assert (settings.partition_max_bytes, settings.backoff_ms, settings.fetch_version) == (55, 11, 12)
    older = BrokerConfig.from_properties(
        keys | {"inter.broker.protocol.version": "2.6", "log.message.format.version": "2.6"}
    )
    assert FetcherSettings.of(older).fetch_version == 11
