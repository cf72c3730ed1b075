"""How a leader has its in-sync replicas written: by the controller, or by itself."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kafkapy.metadata.embedded import EmbeddedSession, EmbeddedStore
from kafkapy.metadata.store import NodeStat, SessionExpiredError, StoreRefusedError, ensure_path
from kafkapy.metadata.znodes import IsrChangeNotificationZNode, LeaderIsr, PartitionStateZNode
from kafkapy.network.peer import PeerUnreachableError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from kafkapy.replication import isr_writers
from kafkapy.replication.isr_writers import (
    BATCH_MS,
    LATEST_NOTIFICATION_MS,
    MOST_IN_A_NOTIFICATION,
    NOTIFICATION_CHECK_MS,
    REFUSED_RETRY_MS,
    ControllerIsrWriter,
    StoreIsrWriter,
)
from kafkapy.replication.replica_manager import PendingAck
from kafkapy.types import TopicPartition
from tests.replication.logs import ME, TP, Node, batch

Answer = Callable[[AlterPartitionRequest], Message]
LAG_MS = 1000


def answer(code: int = 0, isr: tuple[int, ...] = (), version: int = 1, *, top: int = 0) -> Answer:
    def respond(_: AlterPartitionRequest) -> Message:
        row = ResponsePartitionData(0, code, ME, 0, list(isr), partition_epoch=version)
        stranger = ResponsePartitionData(9, code)
        return AlterPartitionResponse(error_code=top, topics=[ResponseTopicData(TP.topic, partitions=[row, stranger])])

    return respond


def unreachable(_: AlterPartitionRequest) -> Message:
    raise PeerUnreachableError("broker 7 is down")


class Leading:
    """Broker 1 leads ``t-0``; the controller, broker 7, answers with ``answers`` in their order."""

    def __init__(self, path: Path) -> None:
        self.node = Node(path)
        self.clock = self.node.clock
        self.requests: list[AlterPartitionRequest] = []
        self.answers: list[Answer] = []
        self.controller = 7
        self.writer = ControllerIsrWriter(self.node.replicas, self, self.clock, lambda: self.controller, lambda: 33)
        self.node.replicas.change_isr_by(lambda: self.writer)
        self.partition = self.node.partition(isr=(ME,), replicas=(ME, 2, 3))

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        """As ``BrokerChannel``."""
        assert (broker_id, version) == (7, 0)
        assert isinstance(request, AlterPartitionRequest)
        self.requests.append(request)
        return self.answers.pop(0)(request)

    def fetch(self, broker_id: int, offset: int = 0) -> None:
        self.node.replicas.follower_fetched(self.partition, broker_id, offset, 0)

    def shrink(self) -> None:
        for _ in self.node.replicas.shrink_in_sync_sets():
            ...

    async def after(self, duration_ms: int) -> None:
        await settle()
        self.clock.advance(duration_ms)
        await settle()

    @property
    def asked(self) -> list[tuple[list[int], int]]:
        return [
            (each.topics[0].partitions[0].new_isr, each.topics[0].partitions[0].partition_epoch)
            for each in self.requests
        ]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(tmp_path: Path, scenario: Callable[[Leading], Awaitable[None]]) -> None:
    async def limited() -> None:
        leading = Leading(tmp_path)
        await asyncio.wait_for(scenario(leading), 20)
        leading.writer.close()
        await settle()

    asyncio.run(limited())


def test_a_follower_that_has_caught_up_is_in_sync_when_the_controller_says_so(tmp_path: Path) -> None:
    async def scenario(leading: Leading) -> None:
        leading.node.replicas.append(TP, batch(2))
        leading.fetch(2)
        assert leading.partition.proposal is None
        leading.answers = [answer(isr=(ME, 2), version=5)]
        leading.fetch(2, 2)
        leading.fetch(3, 2)
        assert set(leading.partition.isr.maximal) == {ME, 2}
        await leading.after(BATCH_MS)
        assert (leading.requests[0].broker_id, leading.requests[0].broker_epoch) == (ME, 33)
        assert (leading.partition.isr.committed, leading.partition.zk_version) == ((ME, 2), 5)
        leading.answers = [answer(isr=(ME, 2, 3), version=6)]
        leading.fetch(3, 2)
        await leading.after(BATCH_MS)
        assert leading.partition.isr.committed == (ME, 2, 3)
        assert leading.asked == [([ME, 2], 0), ([ME, 2, 3], 5)]

    run(tmp_path, scenario)


def test_a_follower_whose_broker_is_not_there_does_not_join(tmp_path: Path) -> None:
    async def scenario(leading: Leading) -> None:
        leading.node.dead.add(2)
        leading.fetch(2)
        assert leading.partition.proposal is None

    run(tmp_path, scenario)


def test_a_follower_that_lags_leaves_and_its_acknowledgements_are_no_longer_waited_for(tmp_path: Path) -> None:
    async def scenario(leading: Leading) -> None:
        leading.partition = leading.node.partition(epoch=1, isr=(ME, 2), replicas=(ME, 2))
        result = leading.node.replicas.append_internal(TP, bytes(batch(2)), 60_000)
        assert isinstance(result, asyncio.Future)
        leading.shrink()
        await leading.after(LAG_MS)
        leading.shrink()
        assert leading.partition.proposal is None
        leading.answers = [answer(isr=(ME,), version=4)]
        await leading.after(1)
        leading.shrink()
        leading.shrink()
        await leading.after(BATCH_MS)
        assert leading.asked == [([ME], 0)]
        assert (await result).last_offset == 1
        assert leading.partition.log.high_watermark == 2

    run(tmp_path, scenario)


def test_a_follower_that_is_not_in_sync_is_waited_for_no_longer_than_it_may_lag(tmp_path: Path) -> None:
    async def scenario(leading: Leading) -> None:
        leading.node.dead.add(2)
        leading.fetch(2)
        result = leading.node.replicas.append_internal(TP, bytes(batch(2)), 60_000)
        assert isinstance(result, asyncio.Future)
        await leading.after(LAG_MS)
        leading.shrink()
        assert leading.partition.log.high_watermark == 0
        await leading.after(1)
        leading.shrink()
        assert (await result).last_offset == 1
        leading.shrink()
        assert leading.requests == []

    run(tmp_path, scenario)


def test_without_an_answer_the_controller_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(leading: Leading) -> None:
        leading.controller = -1
        leading.fetch(2)
        await leading.after(BATCH_MS)
        assert leading.requests == []
        leading.controller = 7
        leading.answers = [
            unreachable,
            unreachable,
            answer(top=ErrorCode.NOT_CONTROLLER),
            answer(ErrorCode.UNKNOWN_SERVER_ERROR),
            answer(isr=(ME, 2)),
        ]
        for _ in range(5):
            await leading.after(BATCH_MS)
        assert leading.partition.isr.committed == (ME, 2)
        await leading.after(10 * BATCH_MS)
        assert len(leading.requests) == 5

    with caplog.at_level(logging.WARNING):
        run(tmp_path, scenario)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "broker 7 is down",
        "broker 7 answers error 41",
        "t-0 has error -1",
    ]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
)
def test_a_proposal_that_comes_too_late_counts_until_the_next_leader_and_isr(tmp_path: Path, code: int) -> None:
    async def scenario(leading: Leading) -> None:
        leading.answers = [answer(code)]
        leading.fetch(2)
        await leading.after(BATCH_MS)
        assert set(leading.partition.isr.maximal) == {ME, 2}
        await leading.after(10 * BATCH_MS)
        assert len(leading.requests) == 1
        leading.node.partition(epoch=1, isr=(ME,), replicas=(ME, 2))
        assert leading.partition.isr.maximal == (ME,)

    run(tmp_path, scenario)


def test_a_proposal_that_the_controller_refuses_is_withdrawn(tmp_path: Path) -> None:
    async def scenario(leading: Leading) -> None:
        leading.answers = [answer(ErrorCode.OPERATION_NOT_ATTEMPTED)]
        leading.fetch(2)
        await leading.after(BATCH_MS)
        assert (leading.partition.proposal, leading.partition.isr.maximal) == (None, (ME,))

    run(tmp_path, scenario)


def test_a_refusal_moves_the_high_watermark_and_answers_who_waits_for_it(tmp_path: Path) -> None:
    async def scenario(leading: Leading) -> None:
        leading.controller = -1
        leading.fetch(2)
        leading.node.replicas.append(TP, batch(1), required_acks=-1)
        waiting = leading.node.replicas.when_acknowledged([PendingAck(TP, 1)], 30_000, lambda errors: errors)
        await leading.after(2 * LAG_MS)
        assert (leading.partition.log.high_watermark, waiting.done()) == (0, False)
        leading.controller = 7
        leading.answers = [answer(ErrorCode.OPERATION_NOT_ATTEMPTED)]
        await leading.after(BATCH_MS)
        assert leading.partition.log.high_watermark == 1
        assert await waiting == [None]

    run(tmp_path, scenario)


def test_a_proposal_of_an_earlier_epoch_is_not_sent(tmp_path: Path) -> None:
    async def scenario(leading: Leading) -> None:
        leading.fetch(2)
        leading.node.partition(epoch=1, isr=(ME,), replicas=(ME, 2))
        await leading.after(BATCH_MS)
        assert leading.requests == []

    run(tmp_path, scenario)


def test_an_unexpected_failure_is_logged_and_the_controller_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: AlterPartitionRequest) -> Message:
        raise ZeroDivisionError("a bug")

    async def scenario(leading: Leading) -> None:
        leading.answers = [fail, answer(isr=(ME, 2))]
        leading.fetch(2)
        for _ in range(2):
            await leading.after(BATCH_MS)
        assert leading.partition.isr.committed == (ME, 2)

    run(tmp_path, scenario)
    assert "Asking the controller for in-sync replicas failed, trying again" in caplog.text


# the leader writes


class Writing:
    """Broker 1 leads ``t-0``, whose state is in a store with version 0."""

    def __init__(self, path: Path) -> None:
        self.node = Node(path)
        self.clock = self.node.clock
        self.store = EmbeddedStore(None, self.clock)
        self.partition = self.node.partition(isr=(ME,), replicas=(ME, 2, 3))
        self.path = PartitionStateZNode.path(TP)

    async def start(self) -> None:
        await self.store.open()
        self.session = self.store.session()
        await ensure_path(self.session, self.path, PartitionStateZNode.encode(LeaderIsr(ME, 0, (ME,), 1)))
        await ensure_path(self.session, IsrChangeNotificationZNode.PATH)
        self.writer = StoreIsrWriter(self.node.replicas, self.session, self.clock)
        self.node.replicas.change_isr_by(lambda: self.writer)

    async def joins(self, broker_id: int) -> None:
        self.node.replicas.follower_fetched(self.partition, broker_id, 0, 0)
        await settle()

    async def state(self) -> LeaderIsr:
        node = await self.session.get(self.path)
        return PartitionStateZNode.decode(node.data, node.stat.version)

    async def notifications(self) -> list[list[TopicPartition]]:
        names = sorted(await self.session.children(IsrChangeNotificationZNode.PATH))
        nodes = [await self.session.get(f"{IsrChangeNotificationZNode.PATH}/{name}") for name in names]
        return [IsrChangeNotificationZNode.decode(node.data) for node in nodes]


def write(tmp_path: Path, scenario: Callable[[Writing], Awaitable[None]]) -> None:
    async def limited() -> None:
        writing = Writing(tmp_path)
        await writing.start()
        await asyncio.wait_for(scenario(writing), 20)
        writing.writer.close()
        await writing.store.close()
        await settle()

    asyncio.run(limited())


def test_a_leader_writes_the_state_and_tells_the_controller_after_some_quiet_seconds(tmp_path: Path) -> None:
    async def scenario(writing: Writing) -> None:
        await writing.joins(2)
        assert await writing.state() == LeaderIsr(ME, 0, (ME, 2), 1, 1)
        assert (writing.partition.isr.committed, writing.partition.zk_version) == ((ME, 2), 1)
        for _ in range(2):
            writing.clock.advance(NOTIFICATION_CHECK_MS - 1)
            await settle()
            assert await writing.notifications() == []
        writing.clock.advance(2 * NOTIFICATION_CHECK_MS)
        await settle()
        assert await writing.notifications() == [[TP]]
        writing.clock.advance(LATEST_NOTIFICATION_MS)
        await settle()
        assert await writing.notifications() == [[TP]]
        await writing.joins(3)
        assert await writing.state() == LeaderIsr(ME, 0, (ME, 2, 3), 1, 2)
        writing.clock.advance(NOTIFICATION_CHECK_MS)
        await settle()
        assert await writing.notifications() == [[TP], [TP]]  # the last one is a minute old

    write(tmp_path, scenario)


def test_a_state_that_the_controller_has_changed_is_left_alone(tmp_path: Path) -> None:
    async def scenario(writing: Writing) -> None:
        await writing.session.set(writing.path, PartitionStateZNode.encode(LeaderIsr(2, 1, (2,), 1)))
        await writing.joins(2)
        assert (await writing.state()).leader == 2
        assert set(writing.partition.isr.maximal) == {ME, 2}
        assert await writing.notifications() == []

    write(tmp_path, scenario)


def test_a_state_that_is_gone_or_can_not_be_read_is_left_alone(tmp_path: Path) -> None:
    async def scenario(writing: Writing) -> None:
        await writing.session.set(writing.path, b"{}")
        await writing.joins(2)
        assert writing.partition.proposal is not None
        writing.partition = writing.node.partition(epoch=1, isr=(ME,), replicas=(ME, 2))
        await writing.session.delete(writing.path)
        await writing.joins(2)
        assert writing.partition.proposal is not None

    write(tmp_path, scenario)


def test_a_write_whose_answer_was_lost_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(writing: Writing) -> None:
        written = EmbeddedSession.set

        async def lose(*arguments: object) -> NodeStat:
            monkeypatch.undo()
            await written(*arguments)  # type: ignore[arg-type]  # as they came
            raise SessionExpiredError(writing.path)

        monkeypatch.setattr(EmbeddedSession, "set", lose)
        await writing.joins(2)
        assert await writing.state() == LeaderIsr(ME, 0, (ME, 2), 1, 1)
        assert writing.partition.isr.committed == (ME, 2)

    write(tmp_path, scenario)


def test_a_notification_is_created_in_the_next_session_and_none_without_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(writing: Writing) -> None:
        await writing.joins(2)

        async def expire(*_: object, **__: object) -> str:
            raise SessionExpiredError("/")

        with monkeypatch.context() as expired:
            expired.setattr(EmbeddedSession, "create", expire)
            for _ in range(4):
                writing.clock.advance(NOTIFICATION_CHECK_MS)
                await settle()
        writing.clock.advance(NOTIFICATION_CHECK_MS)
        await settle()
        assert await writing.notifications() == [[TP]]
        await writing.joins(3)
        await writing.session.close()
        writing.clock.advance(LATEST_NOTIFICATION_MS)
        await settle()
        writing.partition = writing.node.partition(epoch=1, isr=(ME,), replicas=(ME, 2))
        await writing.joins(2)
        assert set(writing.partition.isr.maximal) == {ME, 2}

    with caplog.at_level(logging.INFO, "kafkapy.replication"):
        write(tmp_path, scenario)
    assert "The controller is not told of changed in-sync replicas" in caplog.text
    assert "In-sync replicas are changed no more" in caplog.text


def test_a_proposal_of_an_earlier_epoch_is_not_written(tmp_path: Path) -> None:
    async def scenario(writing: Writing) -> None:
        writing.node.replicas.follower_fetched(writing.partition, 2, 0, 0)
        writing.node.partition(epoch=1, isr=(ME,), replicas=(ME, 2))
        await settle()
        assert (await writing.state()).zk_version == 0

    write(tmp_path, scenario)


def test_a_write_that_the_store_refuses_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The state first, then the notification."""

    async def scenario(writing: Writing) -> None:
        async def refuse(path: str, *_: object, **__: object) -> NodeStat:
            raise StoreRefusedError(path, "throttled")

        with monkeypatch.context() as patch:
            patch.setattr(writing.session, "set", refuse)
            await writing.joins(2)
            assert writing.partition.isr.committed == (ME,)
            writing.clock.advance(REFUSED_RETRY_MS)
            await settle()
        writing.clock.advance(REFUSED_RETRY_MS)
        await settle()
        assert writing.partition.isr.committed == (ME, 2)
        with monkeypatch.context() as patch:
            patch.setattr(writing.session, "create", refuse)
            for _ in range(4):
                writing.clock.advance(NOTIFICATION_CHECK_MS)
                await settle()
        assert await writing.notifications() == []
        writing.clock.advance(NOTIFICATION_CHECK_MS)
        await settle()
        assert await writing.notifications() == [[TP]]

    write(tmp_path, scenario)
    assert caplog.text.count("In-sync replicas could not be written and will be tried again: throttled") == 1
    assert "The controller could not be told of in-sync replicas, trying again: throttled" in caplog.text


def test_many_changes_are_told_in_several_notifications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_writers, "MOST_IN_A_NOTIFICATION", 2)

    async def scenario(writing: Writing) -> None:
        await writing.joins(2)
        for index in range(1, 5):
            writing.writer._note(TopicPartition("t", index))
        for _ in range(6):
            writing.clock.advance(NOTIFICATION_CHECK_MS)
            await settle()
        assert [[each.partition for each in note] for note in await writing.notifications()] == [[0, 1], [2, 3], [4]]

    write(tmp_path, scenario)


def test_a_notification_of_the_longest_names_is_small_enough_for_zookeeper() -> None:
    partitions = [TopicPartition("n" * 249, index) for index in range(100_000, 100_000 + MOST_IN_A_NOTIFICATION)]
    assert len(IsrChangeNotificationZNode.encode(partitions)) < 1_000_000
