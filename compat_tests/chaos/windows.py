"""Fault windows: which one comes when is decided by the seed and its number alone; how each is done."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum

from kazoo.handlers.threading import KazooTimeoutError

from compat_tests.chaos.names import asked_meanwhile
from compat_tests.chaos.namespaces import CLIENTS
from compat_tests.chaos.three_machines import BROKERS, WAIT_S, ZOOKEEPER, ThreeMachines, Tree
from compat_tests.chaos.workload import PARTITIONS, TRANSACTIONAL_ID
from harness.keeper import keeper
from harness.process import wait_for

IN_A_ROW = 5
LONG_PAUSES = 0.06
"""The share of pauses that last 10 to 60 s."""


class Kind(Enum):
    """The events of a window."""

    KILL = "SIGKILL"
    PAUSE = "SIGSTOP"
    STOP = "controlled shutdown"
    EXPIRE = "session expiry"
    KILL_ZOOKEEPER = "ZooKeeper killed"
    PAUSE_ZOOKEEPER = "ZooKeeper stopped"
    ISOLATE = "isolated"
    ISOLATE_FROM_BROKERS = "isolated, but for clients"
    ONE_WAY_OUT = "one way: sends nothing"
    ONE_WAY_IN = "one way: receives nothing"
    NO_ZOOKEEPER = "without ZooKeeper"
    FULL_DISK = "full disk"
    FIVE_LEADERS = "five leaders in a row"
    KILL_ALL = "SIGKILL of all"


class Aim(Enum):
    """Whom it happens to."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CONTROLLER = "controller"
    GROUP_COORDINATOR = "group coordinator"
    TRANSACTION_COORDINATOR = "transaction coordinator"
    NOBODY = "-"


WEIGHTS = {
    Kind.KILL: 15,
    Kind.PAUSE: 15,
    Kind.STOP: 9,
    Kind.EXPIRE: 11,
    Kind.KILL_ZOOKEEPER: 4,
    Kind.PAUSE_ZOOKEEPER: 4,
    Kind.ISOLATE: 9,
    Kind.ISOLATE_FROM_BROKERS: 6,
    Kind.ONE_WAY_OUT: 6,
    Kind.ONE_WAY_IN: 6,
    Kind.NO_ZOOKEEPER: 8,
    Kind.FULL_DISK: 5,
    Kind.FIVE_LEADERS: 2,
    Kind.KILL_ALL: 8,
}
WITHOUT_AIM = {Kind.KILL_ZOOKEEPER, Kind.PAUSE_ZOOKEEPER, Kind.FIVE_LEADERS}
NEED_NAMESPACES = {
    Kind.ISOLATE,
    Kind.ISOLATE_FROM_BROKERS,
    Kind.ONE_WAY_OUT,
    Kind.ONE_WAY_IN,
    Kind.NO_ZOOKEEPER,
    Kind.FULL_DISK,
}


@dataclass(frozen=True)
class Window:
    """One fault; `partition` picks the leader, `choice` (0 to 1) whatever else is to be picked."""

    number: int
    kind: Kind
    aim: Aim
    seconds: float
    partition: int
    choice: float
    waits_for_replicas: bool

    @staticmethod
    def drawn(seed: int, number: int, kinds: list[Kind]) -> "Window":
        """The window that this seed has at this place."""
        chance = random.Random(f"{seed}/{number}")
        kind = chance.choices(kinds, [WEIGHTS[each] for each in kinds])[0]
        aim: Aim = chance.choice([each for each in Aim if each is not Aim.NOBODY])
        seconds = chance.uniform(0.3, 3) if chance.random() < 0.6 else chance.uniform(3, 9)
        if kind is Kind.PAUSE:
            is_long = chance.random() < LONG_PAUSES
            seconds = chance.uniform(10, 60) if is_long else chance.uniform(1, 5)
        elif kind in (Kind.KILL, Kind.STOP, Kind.EXPIRE, Kind.FULL_DISK, Kind.KILL_ZOOKEEPER, Kind.PAUSE_ZOOKEEPER):
            seconds = min(seconds, 3.0)
        if kind in WITHOUT_AIM:
            aim = Aim.NOBODY
        return Window(
            number, kind, aim, round(seconds, 2), chance.randrange(PARTITIONS), chance.random(), chance.random() < 0.8
        )

    def __str__(self) -> str:
        return f"window {self.number}: {self.kind.value} → {self.aim.value}, {self.seconds} s"


@contextmanager
def busy_processors() -> Iterator[None]:
    """Programs that compute meanwhile, two for each processor."""
    command = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    programs = [subprocess.Popen(command) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        for program in programs:
            keeper().note("process", program.pid)
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()
            keeper().forget("process", program.pid)


class Faults:
    """Does to the cluster what a window says, and undoes it."""

    def __init__(self, cluster: ThreeMachines, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._say = say
        self.ended_by_themselves = 0

    def run(self, window: Window, topic: str) -> None:
        """The whole window; returns when the fault is over, not when the cluster has recovered."""
        victim = self._victim(window, topic)
        self._say(f"{window}, broker {victim}" if window.aim is not Aim.NOBODY else str(window))
        simple: dict[Kind, Callable[[], None]] = {
            Kind.KILL: lambda: self._kill(victim, window),
            Kind.PAUSE: lambda: self._pause(victim, window.seconds),
            Kind.STOP: lambda: self._stop(victim, window.seconds),
            Kind.EXPIRE: lambda: self._expire(victim, window.seconds),
            Kind.KILL_ZOOKEEPER: lambda: self._kill_zookeeper(window.seconds),
            Kind.PAUSE_ZOOKEEPER: lambda: self._pause_zookeeper(window.seconds),
            Kind.FULL_DISK: lambda: self._fill(victim, window.seconds),
            Kind.FIVE_LEADERS: lambda: self._five_leaders(topic, window),
            Kind.KILL_ALL: lambda: self._kill_all(victim, window),
        }
        if window.kind in simple:
            simple[window.kind]()
        else:
            self._separate(window, victim)
        self.restart_those_that_ended()

    def _victim(self, window: Window, topic: str) -> int:
        """The broker that a window is aimed at; a random one while no broker has that role."""
        cluster, found = self._cluster, None
        if window.aim is Aim.CONTROLLER:
            found = cluster.controller()
        elif window.aim is Aim.GROUP_COORDINATOR:
            found = cluster.coordinator(f"group-{topic}", 0)
        elif window.aim is Aim.TRANSACTION_COORDINATOR:
            found = cluster.coordinator(f"{TRANSACTIONAL_ID}-0", 1)
        elif window.aim in (Aim.LEADER, Aim.FOLLOWER):
            found = cluster.leader(topic, window.partition)
        if window.aim is Aim.FOLLOWER and found is not None:
            others = [number for number in BROKERS if number != found]
            return others[int(window.choice * len(others))]
        return found or BROKERS[int(window.choice * len(BROKERS))]

    def _start(self, number: int) -> None:
        if self._cluster.target == "kafka":
            self._cluster.wait_for_end_of_session(number)
        self._cluster.brokers[number].start(wait=False).wait_ready(WAIT_S)

    def _kill(self, victim: int, window: Window) -> None:
        self._cluster.brokers[victim].kill()
        time.sleep(window.seconds if window.choice < 0.7 else 0)
        self._start(victim)

    def _kill_all(self, victim: int, window: Window) -> None:
        """All brokers are killed, and start on busy processors while one is stopped or loses its session.

        In half of the windows the victim is killed a second to ten before the others: it has left the replicas in sync
        of some partitions, and they have no leader when it is the first to be back.
        """
        chance = random.Random(f"{window.choice}")
        brokers = self._cluster.brokers
        if chance.random() < 0.5:
            brokers[victim].kill()
            time.sleep(chance.uniform(1, 10))
        for broker in brokers.values():
            if broker.pid is not None:
                os.kill(broker.pid, signal.SIGKILL)
        for broker in brokers.values():
            broker.kill()
        time.sleep(chance.choice([0, window.seconds, 2 * self._cluster.size.session_ms / 1000]))
        with busy_processors(), asked_meanwhile(self._cluster):
            self._start_all(victim, window.seconds, chance)

    def _start_all(self, victim: int, seconds: float, chance: random.Random) -> None:
        """The victim first; then what disturbs its start, and the others."""
        disturbance = chance.choice(["nothing", "pause", "expire"])
        gap_s = chance.choice([0.0, chance.uniform(0, 4)])
        self._say(f"  the start of broker {victim}, the others {gap_s:.1f} s later: {disturbance}")
        for number in sorted(BROKERS, key=lambda number: number != victim):
            if self._cluster.target == "kafka":
                self._cluster.wait_for_end_of_session(number)
            self._cluster.brokers[number].start(wait=False)
            time.sleep(gap_s if number == victim else 0)
        if disturbance == "pause":
            self._pause(victim, seconds)
        elif disturbance == "expire":
            before = self._cluster.registration(victim)
            wait_for(
                lambda: self._cluster.registration(victim) not in (None, before),
                2 * self._cluster.size.session_ms / 1000,
                0.1,
            )
            self._expire(victim, 0)
        for number in BROKERS:
            self._cluster.brokers[number].wait_ready(WAIT_S)

    def _stop(self, victim: int, seconds: float) -> None:
        code = self._cluster.brokers[victim].stop(timeout_s=WAIT_S)
        if code not in (0, 143):
            raise AssertionError(f"broker {victim} stopped with {code}")
        time.sleep(seconds)
        self._start(victim)

    def _pause(self, victim: int, seconds: float) -> None:
        self._signal(self._cluster.brokers[victim].pid, seconds)

    @staticmethod
    def _signal(pid: int | None, seconds: float) -> None:
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    def _expire(self, victim: int, seconds: float) -> None:
        """Ends the broker's session as its owner would: by closing it, from another connection."""
        session = self._cluster.registration(victim)
        if session is not None:
            # The session of a killed broker can end on its own before it is taken over: ZooKeeper then refuses it.
            with (
                suppress(KazooTimeoutError),
                Tree(self._cluster.zookeeper.bootstrap, self._cluster.size.session_ms, session) as tree,
            ):
                assert tree.client_id[0] == session, "another session"
            expired = wait_for(lambda: self._cluster.registration(victim) != session, WAIT_S, 0.25)
            assert expired, "the session goes on"
        time.sleep(min(seconds, 1.0))

    def _kill_zookeeper(self, seconds: float) -> None:
        self._cluster.zookeeper.kill()
        time.sleep(seconds)
        self._cluster.zookeeper.start(wait=False).wait_ready(WAIT_S)

    def _pause_zookeeper(self, seconds: float) -> None:
        self._signal(self._cluster.zookeeper.pid, seconds)

    def _separate(self, window: Window, victim: int) -> None:
        network = self._cluster.network
        assert network is not None
        others = [number for number in (*BROKERS, ZOOKEEPER) if number != victim]
        for other in [*others, CLIENTS] if window.kind is Kind.ISOLATE else others:
            if window.kind in (Kind.ISOLATE, Kind.ISOLATE_FROM_BROKERS):
                network.separate(victim, other)
            elif window.kind is Kind.ONE_WAY_OUT:
                network.drop(victim, other)
            elif window.kind is Kind.ONE_WAY_IN:
                network.drop(other, victim)
        if window.kind is Kind.NO_ZOOKEEPER:
            network.separate(victim, ZOOKEEPER)
        time.sleep(window.seconds)
        network.heal()

    def _fill(self, victim: int, seconds: float) -> None:
        ballast = self._cluster.disk(victim) / "ballast"
        deadline = time.monotonic() + seconds
        with ballast.open("wb", buffering=0) as file:
            while time.monotonic() < deadline:
                try:
                    file.write(bytes(1 << 18))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    self._fill_rest(file.fileno())
                    time.sleep(0.05)
        ballast.unlink()

    @staticmethod
    def _fill_rest(descriptor: int) -> None:
        with suppress(OSError):
            while os.write(descriptor, bytes(512)):
                pass

    def _five_leaders(self, topic: str, window: Window) -> None:
        """Five times, who leads a partition is killed, or stopped until there is another leader."""
        starting: list[threading.Thread] = []
        failed: list[BaseException] = []
        for turn in range(IN_A_ROW):
            for thread in starting:  # of three brokers two have to run for the next election
                thread.join(WAIT_S)
            leader = self._any_leader(topic, window.partition)
            if leader is None:
                raise AssertionError(f"no leader within {WAIT_S:.0f} s after {turn} of {IN_A_ROW}")
            self._say(f"  {turn + 1} of {IN_A_ROW}: broker {leader}")
            is_pause = bool((turn + window.number) % 2)
            arguments = (leader, topic, window.partition, is_pause, failed)
            starting.append(threading.Thread(target=self._end_leader, args=arguments))
            starting[-1].start()
        for thread in starting:
            thread.join(2 * WAIT_S)
        if failed:
            raise failed[0]

    def _any_leader(self, topic: str, partition: int) -> int | None:
        """Waits until a partition has a leader; the last one may lead again when it is back."""
        found: list[int] = []

        def is_led() -> bool:
            leader = self._cluster.leader(topic, partition)
            found[:] = [] if leader is None else [leader]
            return bool(found)

        wait_for(is_led, WAIT_S, 0.25)
        return found[0] if found else None

    def _end_leader(self, leader: int, topic: str, partition: int, is_pause: bool, failed: list[BaseException]) -> None:
        broker = self._cluster.brokers[leader]
        try:
            if is_pause:
                assert broker.pid is not None
                os.kill(broker.pid, signal.SIGSTOP)
                wait_for(lambda: self._cluster.leader(topic, partition) not in (None, leader), WAIT_S, 0.25)
                os.kill(broker.pid, signal.SIGCONT)
            else:
                broker.kill()
                self._start(leader)
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits for it
            failed.append(error)

    def restart_those_that_ended(self) -> None:
        """Start the brokers that have ended again, and count them: Apache Kafka ends when its disk is full."""
        for number, broker in self._cluster.brokers.items():
            if reason := broker.why_gone():
                self.ended_by_themselves += 1
                self._say(f"  {reason[:300]}")
                broker.kill()
                self._start(number)
