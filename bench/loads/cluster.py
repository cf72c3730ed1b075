"""Loads of three brokers on a ZooKeeper: replicated produce, a leader's and a controller's sudden end, catching up.

Each has three Apache Kafka 2.7.2 brokers beside three of kafkapy, on the same ZooKeeper server, which is not counted.
``cluster`` has what they have in common.
"""

import itertools
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.brokers.cluster import (
    METADATA_VERSION,
    POLL_S,
    BrokerCluster,
    Partitions,
    Placement,
    controller_in,
    metadata_of,
)
from bench.brokers.contestants import KAFKAPY, Arena, Contestant
from bench.clients.groups import ask
from bench.clients.long_log import RECORD_SIZE, RECORDS_OF_A_BATCH
from bench.clients.raw import connect, error_of, produce_frame, receive
from bench.loads.load import MANY, Metrics, python_client
from bench.loads.long_log import CLIENT as LOG_CLIENT
from bench.loads.records import java_producer
from bench.loads.workloads import Workload
from harness.cluster import tree_at
from harness.kafkapy_process import ROOT
from harness.measure import LoadError, median

CLIENT = "bench.clients.cluster"
BROKERS = (1, 2, 3)
COMPARED = (KAFKAPY, "kafka-2.7.2")
SETTLE_S = 3.0
TOPIC_SIZE = 100
"""Partitions of each of the topics that many partitions are spread over."""
BEFORE_EXPIRY_S = 2.0
"""No session of a broker that was killed ends before: it is a small part of the sessions' time-out."""
MANY_HEAP = "2G"
FAILOVER_TIMEOUT_S = 180.0


def rotated(partitions: int, replicas: int) -> list[list[int]]:
    """Replicas of partitions, spread evenly over the brokers, and leaders too."""
    return [[BROKERS[(number + step) % len(BROKERS)] for step in range(replicas)] for number in range(partitions)]


@dataclass(frozen=True)
class ReplicatedProduce:
    """Produces 64 kB batches to six partitions with three replicas, acks=all; all rounds are on the same brokers.

    It is measured when no broker gets cheaper any more: a JVM compiles for minutes.
    """

    gigabytes: float
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = MANY
    compared: ClassVar[Sequence[str]] = COMPARED
    settles_in: ClassVar[int] = 12
    cost: ClassVar[str] = "s_per_gb"
    topic: ClassVar[str] = "replicated"
    config: ClassVar[Mapping[str, str]] = {
        "min.insync.replicas": "2",
        # The runs of one broker write some 40 GB; of these the disk has to hold 7 at a time.
        "segment.bytes": "134217728",
        "retention.bytes": "268435456",
    }

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        cluster = arena.shared_cluster(contestant.name)
        if self.topic not in cluster.known_topics:
            cluster.create({self.topic: rotated(6, 3)}, self.config)
        before = cluster.records(self.topic)
        leaders = cluster.partitions(cluster.running[0], [self.topic]).leaders
        batches = int(self.gigabytes * 10**9 / len(leaders)) // (RECORD_SIZE * RECORDS_OF_A_BATCH)
        records = len(leaders) * batches * RECORDS_OF_A_BATCH
        ports = {str(partition): cluster.brokers[leader].port for (_, partition), leader in leaders.items()}
        options = {"ports": ports, "topic": self.topic, "batches": batches}
        used_s = cluster.processor_s()
        wall_s = python_client(CLIENT, "produce", json.dumps(options))["wall_s"]
        used_s = cluster.processor_s() - used_s
        if cluster.records(self.topic) != before + records:
            raise LoadError(f"{contestant.name}: {self.topic} does not hold the {records} acknowledged records")
        if not all(cluster.partitions(number, [self.topic]).are_all_in_sync for number in cluster.running):
            raise LoadError(f"{contestant.name}: not all replicas of {self.topic} are in sync")
        gigabytes = records * RECORD_SIZE / 1e9
        return {"s_per_gb": used_s / gigabytes, "mb_per_s": 1000 * gigabytes / wall_s}


@dataclass(frozen=True)
class CatchUp:
    """Three partitions, one on each broker, get a second replica on another broker, which copies them.

    Measured from the request for the replicas until all brokers know that they are in sync: processor-seconds of all
    brokers per GB that was copied. Then the replicas are removed again.
    """

    gigabytes: float
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = MANY
    compared: ClassVar[Sequence[str]] = COMPARED
    settles_in: ClassVar[int] = 8
    cost: ClassVar[str] = "s_per_gb"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        cluster = arena.shared_cluster(contestant.name)
        alone: Placement = {f"catch-up-{number}": [[number]] for number in BROKERS}
        grown: Placement = {f"catch-up-{number}": [[number, number % len(BROKERS) + 1]] for number in BROKERS}
        batches = int(self.gigabytes * 10**9 / len(BROKERS)) // (RECORD_SIZE * RECORDS_OF_A_BATCH)
        if not cluster.known_topics >= alone.keys():
            cluster.create(alone)
            for number, topic in zip(BROKERS, alone, strict=True):
                options = {"port": cluster.brokers[number].port, "topic": topic, "batches": batches}
                python_client(LOG_CLIENT, "fill", json.dumps(options))
            time.sleep(SETTLE_S)
        began_s, used_s = time.monotonic(), cluster.processor_s()
        cluster.reassign(grown)
        cluster.until(lambda: cluster.has_replicas(grown), "the new replicas are not in sync")
        wall_s, used_s = time.monotonic() - began_s, cluster.processor_s() - used_s
        cluster.reassign(alone)
        cluster.until(lambda: cluster.has_replicas(alone), "the replicas were not removed")
        time.sleep(SETTLE_S)  # until their files are gone, too
        gigabytes = len(BROKERS) * batches * RECORDS_OF_A_BATCH * RECORD_SIZE / 1e9
        return {"s_per_gb": used_s / gigabytes, "mb_per_s": 1000 * gigabytes / wall_s}


@dataclass(frozen=True)
class FollowerMemory:
    """Resident memory of new brokers: idle, then of those that follow while another leads what is produced."""

    workload: Workload
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = 1
    compared: ClassVar[Sequence[str]] = COMPARED
    topic: ClassVar[str] = "followed"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        with arena.cluster(contestant.name) as cluster:
            time.sleep(SETTLE_S)
            idle = cluster.resident_mib(BROKERS)
            leader, *followers = BROKERS
            cluster.create({self.topic: [[leader, *followers]] * 6}, {"min.insync.replicas": "3"})
            java_producer(cluster.bootstrap, self.topic, self.workload, self.workload.records, acks="all")
            return {
                "idle_mib": idle,
                "follower_mib": cluster.resident_mib(followers),
                "leader_mib": cluster.resident_mib([leader]),
            }


@dataclass(frozen=True)
class LeaderLoss:
    """A partition's leader, which is not the controller, ends by SIGKILL, so many times; then it starts again.

    `leaderless_s` is from the signal until another replica has acknowledged a record with acks=all, `after_session_ms`
    the part of it after the end of the session. Medians of all kills. The signal follows the leader's next sign of life
    to ZooKeeper, from which its session lasts: at other times it would be an older sign, by up to some five seconds.
    """

    kills: int
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = 3
    compared: ClassVar[Sequence[str]] = COMPARED
    topic: ClassVar[str] = "lost"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        with arena.cluster(contestant.name) as cluster, tree_at(cluster.zookeeper_connect) as tree:
            cluster.create({self.topic: rotated(30, 3)})
            times = [self._kill(cluster, tree) for _ in range(self.kills)]
            return {name: median([each[name] for each in times]) or 0.0 for name in times[0]}

    def _kill(self, cluster: BrokerCluster, tree: Any) -> Metrics:
        time.sleep(SETTLE_S)
        controller = cluster.controller()
        leaders = cluster.partitions(controller, [self.topic]).leaders
        partition, victim = next((place[1], leader) for place, leader in leaders.items() if leader != controller)
        await_sign_of_life(cluster.zookeeper_connect, tree, victim)
        killed_s = time.monotonic()
        cluster.brokers[victim].kill()
        expired_s = expiry_s(tree, victim)
        served_s = self._served_s(cluster, partition, victim)
        cluster.restart(victim)
        cluster.until(lambda: cluster.partitions(victim, [self.topic]).are_all_in_sync, "replicas are not in sync")
        return {"leaderless_s": served_s - killed_s, "after_session_ms": 1000 * (served_s - expired_s)}

    def _served_s(self, cluster: BrokerCluster, partition: int, victim: int) -> float:
        request = produce_frame(self.topic, partition, acks=-1)
        asked = next(iter(cluster.running))
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            leader = cluster.partitions(asked, [self.topic]).leaders[self.topic, partition]
            if leader not in (victim, -1):
                with connect(cluster.brokers[leader].port) as connection:
                    connection.sendall(request)
                    if error_of(receive(connection), self.topic) == 0:
                        return time.monotonic()
            time.sleep(0.005)
        raise LoadError(f"{cluster.name}: no leader within 60 s")


@dataclass(frozen=True)
class ControllerFailover:
    """The controller of a cluster with very many partitions ends by SIGKILL, so many times; then it starts again.

    All times are from the end of its session. `elected_s`: another broker is the controller. `led_s`: both other
    brokers say of every partition that one of them leads it; a broker learns that after it has handled its LeaderAndIsr
    request. `settled_s`: both say of no partition that the dead broker is in sync. `pause_ms` is the longest time that
    a record took meanwhile, sent to a partition that was on the brokers that live alone. Medians of all kills; of the
    pause, the longest.
    """

    partitions: int
    replicas: int
    kills: int = 2
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = 1
    compared: ClassVar[Sequence[str]] = COMPARED
    probed: ClassVar[str] = "probed"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        with arena.cluster(contestant.name, heap=MANY_HEAP) as cluster, tree_at(cluster.zookeeper_connect) as tree:
            topics = {
                f"many-{start}": rotated(min(TOPIC_SIZE, self.partitions - start), self.replicas)
                for start in range(0, self.partitions, TOPIC_SIZE)
            }
            create_s = cluster.create(topics)
            cluster.create({self.probed: [[number] for number in BROKERS]})
            time.sleep(SETTLE_S)
            resident_mib = cluster.resident_mib(BROKERS)
            kills = [self._kill(cluster, tree, list(topics)) for _ in range(self.kills)]
        times = {name: median([each[name] for each in kills]) or 0.0 for name in kills[0]}
        pause_ms = max(each["pause_ms"] for each in kills)
        return {**times, "pause_ms": pause_ms, "create_s": create_s, "resident_mib": resident_mib}

    def _kill(self, cluster: BrokerCluster, tree: Any, topics: list[str]) -> Metrics:
        victim = controller_in(tree)
        others = [number for number in cluster.running if number != victim]
        with probes(cluster, self.probed, others) as pauses_ms:
            used_s = cluster.processor_s(others)
            killed_s = time.monotonic()
            cluster.brokers[victim].kill()
            expired_s = expiry_s(tree, victim)
            while controller_in(tree) not in others:
                time.sleep(0.002)
            elected_s = time.monotonic()
            led_s, settled_s = reached_s(cluster, others, topics, victim)
            used_s = cluster.processor_s(others) - used_s
        controller_mib = cluster.resident_mib([controller_in(tree)])
        cluster.restart(victim)
        cluster.until(lambda: all(cluster.partitions(each).are_all_in_sync for each in BROKERS), "replicas lag")
        return {
            "session_s": expired_s - killed_s,
            "elected_s": elected_s - expired_s,
            "led_s": led_s - expired_s,
            "settled_s": settled_s - expired_s,
            "processor_s": used_s,
            "pause_ms": max(pauses_ms),
            "controller_mib": controller_mib,
        }


def await_sign_of_life(zookeeper_connect: str, tree: Any, broker: int) -> None:
    """Waits until ZooKeeper has received something, such as a ping, in the session of a broker."""
    session_id = tree.get(f"/brokers/ids/{broker}")[1].ephemeralOwner
    before = _received(zookeeper_connect, session_id)
    deadline_s = time.monotonic() + 60
    while _received(zookeeper_connect, session_id) == before:
        if time.monotonic() > deadline_s:
            raise LoadError(f"ZooKeeper received nothing from broker {broker} within 60 s")
        time.sleep(0.01)


def _received(zookeeper_connect: str, session_id: int) -> int:
    """The requests and pings that ZooKeeper has received in a session, by its command `cons`."""
    host, port = zookeeper_connect.partition("/")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"cons")
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
    found = re.search(rf"recved=(\d+),[^)]*sid={session_id:#x},", answer)
    if found is None:
        raise LoadError(f"ZooKeeper has no connection of session {session_id:#x}")
    return int(found[1])


def expiry_s(tree: Any, broker: int) -> float:
    """Waits for the end of the session of a broker that was killed just now; when that was, on the monotonic clock."""
    time.sleep(BEFORE_EXPIRY_S)
    deadline_s = time.monotonic() + 60
    while tree.exists(f"/brokers/ids/{broker}"):
        if time.monotonic() > deadline_s:
            raise LoadError("the session of a broker that was killed did not end within 60 s")
        time.sleep(0.002)
    return time.monotonic()


def reached_s(cluster: BrokerCluster, brokers: Sequence[int], topics: Sequence[str], dead: int) -> tuple[float, float]:
    """When all these brokers said of each partition that one of them leads it, and that ``dead`` is nowhere in sync.

    One topic after the other is asked for, which costs the brokers little; a state counts from the question on since
    which each topic has been asked for and has been in that state.
    """
    led = _Since(len(topics))
    settled = _Since(len(topics))
    deadline_s = time.monotonic() + FAILOVER_TIMEOUT_S
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(cluster.brokers[number].port)) for number in brokers]
        following = itertools.cycle(topics)
        while not (led.is_certain and settled.is_certain):
            now_s, topic = time.monotonic(), next(following)
            found = [Partitions(ask(each, metadata_of([topic]), METADATA_VERSION)) for each in connections]
            led.note(now_s, all(each.are_led(brokers) for each in found))
            settled.note(now_s, all(each.are_in_sync_without(dead) for each in found))
            if now_s > deadline_s:
                raise LoadError(f"{cluster.name}: no failover within {FAILOVER_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)
    return led.since_s, settled.since_s


class _Since:
    """Since when something has held, when that was seen so many times in a row."""

    def __init__(self, times: int) -> None:
        self.since_s = 0.0
        self._times = times
        self._seen = 0

    def note(self, now_s: float, holds: bool) -> None:
        """Something was seen that holds, or does not."""
        if holds and not self._seen:
            self.since_s = now_s
        self._seen = self._seen + 1 if holds else 0

    @property
    def is_certain(self) -> bool:
        """Whether it was seen often enough."""
        return self._seen >= self._times


@contextmanager
def probes(cluster: BrokerCluster, topic: str, brokers: Sequence[int]) -> Iterator[list[float]]:
    """Lets one process a broker produce to its own partition; the list has their longest waits, in ms, at the end."""
    started = []
    pauses_ms: list[float] = []
    for number in brokers:
        options = {"port": cluster.brokers[number].port, "topic": topic, "partition": BROKERS.index(number)}
        command = [sys.executable, "-m", CLIENT, "probe", json.dumps(options)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
    try:
        yield pauses_ms
    finally:
        for process in started:
            output, _ = process.communicate("over\n", timeout=60)
            pauses_ms.append(json.loads(output.splitlines()[-1])["longest_ms"])
