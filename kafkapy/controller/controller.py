"""Election of the controller, and its queue, which handles one event at a time.

Every broker runs one of these. It watches ``/controller`` and tries to become the controller when there is none; the
one that succeeds holds an ``ActiveController`` until another broker takes over or the session ends.

A session that expires ends the controllership at once (``session_expired``); after the broker has registered in the
next session, ``start`` takes part in the election again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from kafkapy.clock import Clock, TimerHandle
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.controller.active_controller import ActiveController, Watchers
from kafkapy.controller.context import ControllerContext, ControllerMovedError
from kafkapy.controller.requests import Outgoing, PeerQueues
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import NotControllerError
from kafkapy.metadata.store import (
    BadVersionError,
    Create,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SessionEndedError,
    SetData,
    StoreError,
    WatchEvent,
    ensure_path,
)
from kafkapy.metadata.znodes import (
    ControllerEpochZNode,
    ControllerZNode,
    FeatureZNode,
    ForeignDataError,
    LeaderIsr,
    decoded,
)
from kafkapy.network.peer import BrokerChannel
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest
from kafkapy.turns import pause
from kafkapy.types import TopicPartition

Event = Callable[[], Awaitable[None]]
T = TypeVar("T")
IsrAnswers = dict[TopicPartition, LeaderIsr | BrokerError]
"""For each partition of a leader's request: the state in the store now, or the error."""
RETRY_MS: Final = 5_000
"""The pause after the store has refused what an event needs, or the start as the controller has failed."""
FIRST_BALANCE_MS: Final = 5_000
"""The time from a controller's election to its first check whether leaders are unevenly distributed."""

logger = logging.getLogger(__name__)


class Controller:
    """Takes part in the election and handles events in order; ``channel`` reaches all brokers, this one included."""

    def __init__(
        self, broker_id: int, config: BrokerConfig, clock: Clock, store: MetadataStore, channel: BrokerChannel
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._listener = config.controller_listener
        self._clock = clock
        self._store = store
        self._channel = channel
        self._events: asyncio.Queue[tuple[str, Event]] = asyncio.Queue()
        self._queued: set[str] = set()
        self._peers: PeerQueues | None = None
        self._active: ActiveController | None = None
        self._worker: asyncio.Task[None] | None = None
        self._requests: set[asyncio.Future[Any]] = set()
        """Requests that wait for their turn among the events."""
        self._balance_timer: TimerHandle | None = None
        self._retry_timer: TimerHandle | None = None
        """Set after a failure; when it fires, a broker is elected again, which reads everything."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._active is not None

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Host and port under which a broker has registered for the controller; None for one that is not registered.

        Only the controller knows it.
        """
        broker = None if self._active is None else self._active.context.brokers.get(broker_id)
        if broker is None:
            return None
        endpoint = broker.endpoint(self._listener)
        return endpoint.host, endpoint.port

    def is_deleting(self, topic: str) -> bool:
        """Whether the deletion of ``topic`` has been requested and is not complete."""
        return self._active is not None and topic in self._active.context.topics_to_delete

    async def ask(self, name: str, work: Callable[[ActiveController], Awaitable[T]]) -> T:
        """Let the active controller do ``work`` in the order of the events, as event ``name``; return its result.

        Raises ``NotControllerError`` if this broker is not the controller, or is no longer before the work is done;
        and the ``BrokerError`` that the work raises.
        """
        active = self._active
        if active is None:
            raise NotControllerError()
        request: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)

        async def answer() -> None:
            try:
                result = await work(active)
                if not request.done():
                    request.set_result(result)
            except BrokerError as refused:
                if not request.done():
                    request.set_exception(refused)
            finally:  # within the work the broker may have lost the controllership or its session
                _fail(request)

        self._events.put_nowait((name, self._while_active(active, answer)))
        return await request

    async def alter_isr(
        self, broker: int, broker_epoch: int, proposals: Mapping[TopicPartition, LeaderIsr]
    ) -> IsrAnswers:
        """As ``ActiveController.alter_isr``, in the order of the events.

        Raises what that raises, and ``NotControllerError``.
        """

        async def alter(active: ActiveController) -> IsrAnswers:
            answers = await active.alter_isr(broker, broker_epoch, proposals)
            moving = active.reassignments.moving(answers)
            if moving:  # a reassignment may be complete; the leader gets its answer first
                event = self._while_active(active, lambda: active.reassignments.complete(moving))
                self._events.put_nowait(("moving replicas", event))
            return answers

        return await self.ask("in-sync replicas of a leader", alter)

    async def start(self) -> None:
        """Take part in the election; returns when there is a controller and, if it is this broker, it has started."""
        if self._worker is None:
            self._worker = self._new_worker()
        self._put("controller", self._controller_changed)
        await self._events.join()

    def session_expired(self) -> None:
        """Stop being the controller, and drop every event, also the one that is being handled.

        Its writes and requests must not go out: another broker may be the controller by now.
        """
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
        while not self._events.empty():
            self._events.get_nowait()
            self._events.task_done()
        self._queued.clear()
        self._resign()

    async def stop(self) -> None:
        """Handle the queued events, then stop. The controllership ends with the session."""
        if self._worker is not None:
            await self._events.join()
        worker, self._worker = self._worker, None  # none, if the session has expired meanwhile
        if worker is not None:
            worker.cancel()
            await asyncio.wait([worker])
        self._resign()

    def _new_worker(self) -> "asyncio.Task[None]":
        worker = asyncio.create_task(self._work(), name="controller-events")
        worker.add_done_callback(self._ended)
        return worker

    def _ended(self, worker: "asyncio.Task[None]") -> None:
        """Go on with the next event after an unexpected failure, as Apache Kafka does."""
        if self._worker is not worker or worker.cancelled():
            return
        logger.error("The controller failed at an event and goes on with the next", exc_info=worker.exception())
        self._worker = self._new_worker()

    def _put(self, key: str, event: Event) -> None:
        """Queue an event, unless one with the same key is waiting."""
        if key not in self._queued:
            self._queued.add(key)
            self._events.put_nowait((key, event))

    async def _work(self) -> None:
        while True:
            key, event = await self._events.get()
            try:
                await pause()  # events and the store may finish without pausing: let other work run
                self._queued.discard(key)
                await event()
            except ControllerMovedError as moved:
                logger.info("Broker %d is no longer the controller: %s", self._broker_id, moved)
                self._resign()
                self._put("controller", self._controller_changed)
            except SessionEndedError:
                logger.info("Broker %d is no longer the controller: its session has ended", self._broker_id)
                self._resign()
            except ForeignDataError as error:
                logger.error("The controller could not finish the event %r: %s", key, error)
            except StoreError:  # the event may be half handled, and its watch was removed
                logger.exception("The controller could not finish the event %r and starts over", key)
                self._start_over_later()
            except ValueError:
                logger.exception("The controller could not finish the event %r", key)
            finally:
                self._events.task_done()

    async def _controller_changed(self) -> None:
        await self._store.exists(ControllerZNode.PATH, self._controller_watch)
        try:
            node = await self._store.get(ControllerZNode.PATH)
        except NoNodeError:
            self._resign()
            await self._elect()
            return
        if node.stat.owner != self._store.session_id:
            self._resign()

    def _controller_watch(self, _event: WatchEvent) -> None:
        self._put("controller", self._controller_changed)

    async def _elect(self) -> None:
        await ensure_path(self._store, ControllerEpochZNode.PATH, ControllerEpochZNode.encode(0))
        current = await self._store.get(ControllerEpochZNode.PATH)
        epoch = decoded(ControllerEpochZNode.PATH, current.data, ControllerEpochZNode.decode) + 1
        controller_node = ControllerZNode(self._broker_id, self._clock.now_ms())
        try:
            await self._store.multi(
                [
                    Create(ControllerZNode.PATH, controller_node.encode(), ephemeral=True),
                    SetData(ControllerEpochZNode.PATH, ControllerEpochZNode.encode(epoch), current.stat.version),
                ]
            )
        except (NodeExistsError, BadVersionError):
            logger.debug("Another broker was faster to become the controller")
            return
        logger.info("Broker %d is the controller, epoch %d", self._broker_id, epoch)
        await self._start_as_controller(ControllerContext(self._broker_id, epoch, current.stat.version + 1))

    async def _start_as_controller(self, context: ControllerContext) -> None:
        is_complete = False
        try:
            await ensure_path(self._store, FeatureZNode.PATH, FeatureZNode.encode())
            self._peers = PeerQueues(self._channel, self._clock, self._answered)
            watchers = Watchers(self._noticed)
            self._active = ActiveController(context, self._store, self._peers, watchers, self._config)
            await self._active.start_as_controller()
            is_complete = True
        finally:
            if not is_complete and self._worker is not None:  # it is None when the session has expired
                self._start_over_later()
        if self._config.flag("auto.leader.rebalance.enable"):
            self._balance_timer = self._clock.call_later(FIRST_BALANCE_MS, self._balance)

    def _start_over_later(self) -> None:
        """Resign, and after a pause let some broker, perhaps this one, be elected."""
        self._resign()
        self._retry_timer = self._clock.call_later(RETRY_MS, self._put, "start over", self._start_over)

    async def _start_over(self) -> None:
        if self._active is None:
            with suppress(NoNodeError, BadVersionError):
                node = await self._store.get(ControllerZNode.PATH)
                if node.stat.owner == self._store.session_id:
                    await self._store.delete(ControllerZNode.PATH, node.stat.version)
        await self._controller_changed()

    def _resign(self) -> None:
        if self._peers is not None:
            self._peers.remove_all()
        self._peers = self._active = None
        self._queued.clear()  # the waiting events do nothing any more: they must not stand for those of the next term
        if self._balance_timer is not None:
            self._balance_timer.cancel()
            self._balance_timer = None
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None
        for request in list(self._requests):
            _fail(request)

    def _balance(self) -> None:
        """Give leadership back to preferred leaders where too many have lost it, now and after each interval."""
        active = self._active
        if active is None:
            return
        interval_ms = 1000 * self._config.integer("leader.imbalance.check.interval.seconds")
        self._balance_timer = self._clock.call_later(interval_ms, self._balance)
        percentage = self._config.integer("leader.imbalance.per.broker.percentage")
        if len(active.context.brokers) > 1:
            self._put("balance", self._while_active(active, lambda: active.elections.balance(percentage)))

    def _noticed(self, kind: str, path: str) -> None:
        active = self._active
        if active is None:
            return
        topic = path.rpartition("/")[2]
        events: dict[str, Event] = {
            "brokers": active.brokers_changed,
            "topics": active.topics_changed,
            "partitions": lambda: active.partitions_changed(topic),
            "deletions": active.deletions_changed,
            "log directories": active.log_directories_failed,
            "reassignments": active.reassignments_requested,
            "preferred leaders": active.preferred_leaders_requested,
            "in-sync replicas": active.isr_changed,
        }
        key = f"partitions of {topic}" if kind == "partitions" else kind
        self._put(key, self._while_active(active, events[kind]))

    def _answered(self, outgoing: Outgoing, response: Message) -> None:
        active = self._active
        if active is None:
            return
        if isinstance(response, LeaderAndIsrResponse):
            if not active.concerns_log_directories(outgoing.broker, response):
                return
        elif not _deletes(outgoing.request):
            return
        self._events.put_nowait(("answer", self._while_active(active, lambda: active.answered(outgoing, response))))

    def _while_active(self, active: ActiveController, event: Event) -> Event:
        async def guarded() -> None:
            if self._active is active:
                await event()

        return guarded


def _fail(request: "asyncio.Future[T]") -> None:
    """Answer a request that is not answered yet."""
    if not request.done():
        request.set_exception(NotControllerError())


def _deletes(request: Message) -> bool:
    return isinstance(request, StopReplicaRequest) and any(
        state.delete_partition for topic in request.topic_states for state in topic.partition_states
    )
