"""A cluster of real brokers on a simulated loop, network, metadata store and disk, and one history of it.

``BrokerServer`` runs as it is: controller, replica manager, fetchers, partitions, logs, coordinators, dispatch and the
requests between brokers as frames. Simulated are the event loop, the connections below ``PeerConnection`` and above the
dispatcher, the client of the metadata store, the threads that wait for the disk, and random numbers. Files are real, on
a file system in memory where there is one. A killed process leaves all that it has written; in the histories that cut
the power, what the simulated disk has fsynced.
"""

import asyncio
import hashlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.controller.requests import OnResponse, PeerQueues
from kafkapy.metadata.store import StoreClosedError
from kafkapy.metadata.znodes import ControllerZNode
from kafkapy.network.peer import BrokerChannel
from kafkapy.platform.files import Files
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.dispatcher import Dispatcher
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.server.dispatch.result import Handle, Result
from kafkapy.server.lifecycle.broker import START_FAILURES, BrokerServer
from tests.simulation.cluster.clients import OFFSETS, TP, Clients
from tests.simulation.cluster.coordinators import Coordinators
from tests.simulation.cluster.flusher import SimulatedFlusher
from tests.simulation.cluster.invariants import Invariants, Violation
from tests.simulation.cluster.loop import NODE, Node, SimulatedClock, SimulatedLoop, StuckError
from tests.simulation.cluster.network import Host, Network
from tests.simulation.cluster.parts import PartsChannel
from tests.simulation.cluster.schedule import BROKERS, Plan, Step
from tests.simulation.cluster.store import SimulatedStore
from tests.simulation.disk import SimulatedDisk
from tests.simulation.durable import Survival

MEMORY: Final = Path("/dev/shm")
CALLS_MAX: Final = 400_000
"""The calls of a history after which it counts as never ending."""
CALM_MS: Final = 60_000
"""The time within which a healed cluster must be whole again."""

SETTINGS: Final = {
    "log.cleaner.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.retry.backoff.ms": "200",
    "controlled.shutdown.max.retries": "2",
    "request.timeout.ms": "1500",
    "replica.socket.timeout.ms": "1500",
    "socket.connection.setup.timeout.ms": "800",
    "default.replication.factor": "3",
}


def host_of(broker: int) -> str:
    return f"broker{broker}.simulated"


class SimulatedBroker:
    """A broker that is killed, stopped and started again; as ``Interceptor`` it learns when requests are served."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.node = Node(f"broker {broker_id}")
        self.directory = world.directory / str(broker_id)
        self.directory.mkdir()
        seed = world.loop.random.getrandbits(32)
        self.files: Files = SimulatedDisk(str(self.directory), seed) if world.plan.cuts_power else Files()
        self.server: BrokerServer | None = None
        self.services: Services | None = None
        self.is_up = False
        self.flusher: SimulatedFlusher | None = None
        self._later_settings: dict[str, str] = {}
        self._life: asyncio.Task[None] | None = None
        """The start or stop that is running."""

    # the interceptor

    def start(self, services: Services) -> None:
        listener = next(iter(services.apis))
        dispatcher = Dispatcher(services, services.apis[listener])
        self.world.network.hosts[host_of(self.id)] = Host(self.node, dispatcher)

    def handle(self, context: RequestContext, request: Any, handle: Handle) -> Result:
        return handle(context, request)

    def stop(self) -> None:
        self.world.network.stop_serving(host_of(self.id))

    # the life of the process

    def begin(self) -> None:
        if self.server is None and self._life is None:
            self._life = self.world.spawn(self._start(), self.node)

    async def _start(self) -> None:
        world = self.world
        while True:  # its last session
            if not world.store.has_session(self.node):
                break
            await asyncio.sleep(0.1)
        properties = {
            **SETTINGS,
            **world.plan.settings,
            **self._later_settings,
            "broker.id": str(self.id),
            "log.dirs": str(self.directory / "data"),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": f"PLAINTEXT://{host_of(self.id)}:9092",
        }
        config = BrokerConfig.from_properties(properties)
        clock = SimulatedClock(world.loop)
        hooks = Hooks(interceptor=self, files=self.files)
        if world.plan.coordinators is not None:
            self._later_settings = world.plan.coordinators.later_settings
        world.note("starts")
        self.server = BrokerServer(config, clock, store=world.store, serves_brokers=True, hooks=hooks)  # type: ignore[arg-type]
        try:
            await self.server.start()
        except START_FAILURES as error:
            world.note(f"ends, as it can't start: {error}")
            self._gone()
            self._lose_session()
        else:
            self.is_up = True
            world.note("serves")
        self._life = None

    def end_cleanly(self) -> None:
        if self.is_up and self._life is None:
            self._life = self.world.spawn(self._stop(), self.node)

    async def _stop(self) -> None:
        server = self.server
        assert server is not None
        self.is_up = False
        self.world.note("begins a clean stop")
        await server.stop()
        self._gone()
        self.world.note("has stopped")
        self._life = None

    def kill(self) -> None:
        if self.is_up and self._life is None:
            self._life = self.world.spawn(self._kill(), self.node)

    async def _kill(self) -> None:
        world, server = self.world, self.server
        assert server is not None
        world.note("is killed")
        self._gone()
        world.network.hosts.pop(host_of(self.id), None)
        world.network.reset(self.node)
        self._lose_session()
        if self.flusher is not None:
            self.flusher.lose()
        await server.kill()
        if isinstance(self.files, SimulatedDisk):
            self.files.cut_power(world.loop.random.choice((Survival.NOTHING, Survival.ORDERED, Survival.TORN)))
        self._life = None

    def _lose_session(self) -> None:
        self.world.store.clients[self.node].lose()
        self.world.store.unreachable(self.node)

    def _gone(self) -> None:
        self.server = self.services = None
        self.is_up = False
        for law in self.world.laws.values():
            law.broker_ended(self.id)

    def look(self) -> None:
        """Check the invariants of this broker."""
        services = self.services
        if services is None:
            server = self.server
            if server is None:
                return
            try:
                services = self.services = server.services
            except AssertionError:
                return  # it is not composed yet
        partitions = services.replica_manager.partitions
        for topic_partition, law in self.world.laws.items():
            held = partitions.get(topic_partition)
            if held is not None:
                law.broker_changed(self.id, held)


class World:
    """One history; ``run`` raises ``Violation``."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop: Final = SimulatedLoop(Random(f"loop {plan.seed}"))
        self.directory = Path(tempfile.mkdtemp(prefix="kafkapy-", dir=MEMORY if MEMORY.is_dir() else None))
        self.history: list[tuple[float, str, str | logging.LogRecord]] = []
        self.network: Final = Network(self.loop)
        self.store: Final = SimulatedStore(self.loop, self.network, plan.session_ms / 1000)
        self.store.changed = self._store_changed
        self.invariants: Final = Invariants(self.store, TP, self.note)
        self.laws: Final = {TP: self.invariants}
        if plan.has_group:
            self.laws[OFFSETS] = Invariants(self.store, OFFSETS, lambda text: self.note(f"offsets: {text}"))
        self.failure: BaseException | None = None
        self.brokers: Final = {broker: SimulatedBroker(self, broker) for broker in BROKERS}
        self._by_node = {each.node: each for each in self.brokers.values()}
        self.clients: Final = Clients(self)
        self.coordinators: Final = None if plan.coordinators is None else Coordinators(self, plan.coordinators)
        self._node = Node("schedule")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._store_has_changed = False
        self.is_over = False
        """After that only the tasks end."""

    # the history

    def note(self, text: str) -> None:
        if self.is_over:
            return
        node = NODE.get()
        self.history.append((self.loop.time(), "" if node is None else node.name, text))

    def lines(self) -> Iterator[str]:
        """The history for people: seconds, process, what happened."""
        for time_s, name, entry in self.history:
            text = entry if isinstance(entry, str) else f"{entry.levelname} {entry.getMessage()}"
            yield f"{time_s:9.4f}  {name:12}  {text.replace(str(self.directory), '')}"

    def digest(self) -> str:
        """Equal for equal histories."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()[:16]

    def counts(self) -> dict[str, int]:
        """The number of each kind of event in this history."""
        seen = self.invariants
        return {
            "leader epochs": 0 if seen.state is None else seen.state.leader_epoch + 1,
            "changes of the ISR": seen.isr_changes,
            "controllers": seen.controller_epoch,
            "truncations": seen.truncations,
            "committed batches": len(seen.committed),
        }

    # running

    def run(self) -> None:
        self.loop.after_call = self._after_call
        with self._simulated():
            try:
                self.loop.run(self._whole_history(), self._node.context)
            except StuckError:
                raise Violation("nothing is scheduled any more, and the history is not at its end") from None

    @contextmanager
    def _simulated(self) -> Iterator[None]:
        def flusher(_: object) -> SimulatedFlusher:
            made = SimulatedFlusher(self.loop)
            node = NODE.get()
            if node in self._by_node:
                self._by_node[node].flusher = made
            return made

        def random() -> Random:
            return Random(self.loop.random.getrandbits(64))

        def queues(channel: BrokerChannel, clock: Clock, on_response: OnResponse) -> PeerQueues:
            return PeerQueues(PartsChannel(channel, random()), clock, on_response)

        with ExitStack() as patched:
            patched.callback(shutil.rmtree, self.directory, ignore_errors=True)
            patched.callback(self.loop.close)
            patched.enter_context(patch("kafkapy.server.lifecycle.broker.ThreadFlusher", flusher))
            if self.coordinators is not None:
                patched.enter_context(patch("kafkapy.controller.controller.PeerQueues", queues))
            patched.enter_context(patch("kafkapy.server.lifecycle.broker.bind", lambda _: _Socket()))
            for name in ("kafkapy.server.lifecycle.broker", "kafkapy.server.lifecycle.node", "random"):
                patched.enter_context(patch(f"{name}.SystemRandom", random))
            patched.enter_context(_log_to(self))
            yield

    def spawn(self, coroutine: Coroutine[Any, Any, Any], node: Node) -> "asyncio.Task[Any]":
        """Run a coroutine in a process; its failure ends the history."""
        task = self.loop.create_task(coroutine, context=node.context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = self.failure or task.exception()

    def _store_changed(self) -> None:
        self._store_has_changed = True

    def _after_call(self, node: Node | None) -> None:
        try:
            self._check(node)
        except BaseException:
            self.is_over = True
            raise

    def _check(self, node: Node | None) -> None:
        if self._store_has_changed:
            self._store_has_changed = False
            for law in self.laws.values():
                law.store_changed()
        broker = self._by_node.get(node) if node is not None else None
        if broker is not None:
            broker.look()
        if self.failure is not None:
            raise self.failure
        if self.loop.failures:
            failed = self.loop.failures.pop()
            if isinstance(failed.get("exception"), StoreClosedError):
                return  # of a task whose process was killed
            raise Violation(f"an exception was not handled: {failed.get('message')}") from failed.get("exception")
        if self.loop.calls > CALLS_MAX:
            raise Violation(f"the history has not ended after {CALLS_MAX} calls")

    async def _whole_history(self) -> None:
        try:
            await self._history()
        finally:
            self.is_over = True

    async def _history(self) -> None:
        for broker in self.brokers.values():
            broker.begin()
        await self.until(lambda: all(broker.is_up for broker in self.brokers.values()), "the brokers have not started")
        await self.clients.create_topic()
        await self.until(self._is_whole, "the replicas of the new topic are not in sync")
        if self.coordinators is not None:
            await self.coordinators.prepare()
        self.clients.begin()
        for step in self.plan.steps:
            await asyncio.sleep(step.after_ms / 1000)
            if step.kind == "inspect" and self.coordinators is not None:
                await self.coordinators.inspect()
                self.coordinators.begin()
            else:
                self.do(step)
        if self.coordinators is not None:
            await self.coordinators.inspect()
        self.note("all faults end")
        self.clients.finish()
        self.calm()
        await self.until(self._is_quiet, "the healed cluster is not whole")
        self.clients.check()
        for broker in self.brokers.values():
            broker.kill()
        await self.until(lambda: all(each.server is None for each in self.brokers.values()), "a broker does not end")
        await asyncio.sleep(1)

    async def until(self, condition: Callable[[], bool], failure: str) -> None:
        """Wait until the condition holds."""
        for _ in range(CALM_MS // 50):
            if condition():
                return
            await asyncio.sleep(0.05)
        raise Violation(f"{failure} within {CALM_MS // 1000} s: {self._told()}")

    def _told(self) -> str:
        return "; ".join(
            f"{law.partition}: {law.state}, (epoch, leads, high watermark, end): "
            + str({broker: copy.seen for broker, copy in law.copies.items()})
            for law in self.laws.values()
        )

    def _is_whole(self) -> bool:
        return all(self._has_all(law) for law in self.laws.values() if law.state is not None or law.partition == TP)

    def _has_all(self, law: Invariants) -> bool:
        """Whether all replicas are in sync and have the same."""
        state = law.state
        if state is None or set(state.isr) != set(BROKERS) or state.leader < 0:
            return False
        seen = [law.copies[each].seen for each in BROKERS if each in law.copies]
        return len({each and each[2:] for each in seen}) == 1 and None not in seen and seen[0][2] == seen[0][3]

    def are_up(self) -> bool:
        """Tell whether all brokers run; start those that do not."""
        for broker in self.brokers.values():
            broker.begin()
        return all(broker.is_up for broker in self.brokers.values())

    def _is_quiet(self) -> bool:
        return self.are_up() and self.clients.are_idle and self._is_whole()

    # events

    def calm(self) -> None:
        """End every fault."""
        for broker in self.brokers.values():
            self._resume(broker)
        self.network.heal()
        for broker in self.brokers.values():
            self._reached(broker)
            broker.begin()

    def broker(self, target: str) -> SimulatedBroker:
        found = 0
        if target == "leader":
            found = self.invariants.state.leader if self.invariants.state is not None else 0
        elif target == "controller":
            node = self.store.tree.nodes.get(ControllerZNode.PATH)
            found = 0 if node is None else ControllerZNode.decode(node.data).broker_id
        else:
            found = int(target)
        return self.brokers.get(found) or self.brokers[1]

    def do(self, step: Step) -> None:
        """Let an event happen."""
        broker, other = self.broker(step.target), self.broker(step.other)
        self.note(f"{step} ({broker.id}, {other.id})")
        node = broker.node
        others = [each.node for each in self.brokers.values() if each is not broker]
        match step.kind:
            case "kill":
                self._resume(broker)
                broker.kill()
            case "kill all":
                for each in self.brokers.values():
                    self._resume(each)
                    each.kill()
            case "start":
                broker.begin()
            case "stop":
                self._resume(broker)
                broker.end_cleanly()
            case "restart":
                for each in self.brokers.values():
                    each.begin()
            case "cut":
                self.network.sever(node, other.node)
                self.network.sever(other.node, node)
            case "cut one way":
                self.network.sever(node, other.node)
            case "isolate":
                for each in others:
                    self.network.sever(node, each)
                    self.network.sever(each, node)
            case "cut from store":
                self.network.sever(node, self.store.process)
                self.network.sever(self.store.process, node)
                self.store.unreachable(node)
            case "pause":
                if broker.is_up:
                    node.is_paused = True
                    self.store.unreachable(node)
            case "resume":
                for each in self.brokers.values():
                    self._resume(each)
            case "expire":
                if node in self.store.clients:
                    self.store.expire(self.store.clients[node])
                    self.loop.call_later(self.loop.random.random(), self._reached, broker)
            case "reset":
                self.network.reset(node, other.node)
            case "heal":
                self.network.heal()
                for each in self.brokers.values():
                    self._reached(each)
            case "prefer":
                self.clients.elect_preferred()
            case "write":
                self.clients.write_to(broker.id)

    def _resume(self, broker: SimulatedBroker) -> None:
        if broker.node.is_paused:
            self.loop.resume(broker.node)
            self._reached(broker)

    def _reached(self, broker: SimulatedBroker) -> None:
        node = broker.node
        is_cut = (node, self.store.process) in self.network.cut
        if not node.is_paused and not is_cut and broker.server is not None:
            self.store.reached(node)


class _Socket:
    """The socket of a listener, to which nobody connects: the simulated network calls the dispatcher."""

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 9092

    def fileno(self) -> int:
        return -1

    def listen(self, _: int) -> None: ...

    def shutdown(self, _: int) -> None: ...

    def close(self) -> None: ...


class _Records(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world, node = self._world, NODE.get()
        if world.is_over:
            return
        world.history.append((world.loop.time(), "" if node is None else node.name, record))
        if record.exc_info and record.levelno >= logging.ERROR and world.failure is None:
            world.failure = Violation(f"unexpected: {record.getMessage()}: {record.exc_info[1]!r}")
            world.failure.__cause__ = record.exc_info[1]


@contextmanager
def _log_to(world: World) -> Iterator[None]:
    """Write what the product logs into the history."""
    logger, handler = logging.getLogger("kafkapy"), _Records(world)
    before = logger.level, logger.propagate, logger.handlers
    logger.setLevel(logging.INFO)
    logger.propagate, logger.handlers = False, [handler]
    try:
        yield
    finally:
        logger.level, logger.propagate, logger.handlers = before
        logging.getLogger().manager._clear_cache()
