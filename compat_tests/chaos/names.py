"""Names whose coordinators are compared with Kafka's formula: groups with committed offsets, and transactional ids.

A name belongs to one partition of its internal topic (`checks.partition_of`), whose leader is its coordinator. A broker
that takes another number of partitions sends clients elsewhere, where their offsets and transactions are not known.
`Names.check` finds that after a disturbance: the brokers' answers are compared with the leaders of partitions, and each
name has to be as clients were told. `misplaced_names` finds in the logs what was wrong in between.
"""

import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from compat_tests.chaos.checks import (
    Committed,
    changed_producer,
    lost_commit,
    misplaced,
    partition_of,
    wrong_coordinators,
)
from compat_tests.chaos.three_machines import BROKERS, INTERNAL_TOPICS, KEPT_TOPIC, NoProgressError, ThreeMachines
from harness.process import wait_for
from harness.wire import Wire
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import read_records

GROUP, TRANSACTION = 0, 1
"""The key types of FindCoordinator, and the places of their topics in INTERNAL_TOPICS."""
ASKED = 200
"""The names of each type whose coordinator every broker is asked for."""
KEPT_GROUPS, KEPT_IDS = 60, 20
ASK_EVERY_S = 0.5
ASK_MEANWHILE_EVERY_S = 0.02
TRANSACTION_MS = 60_000
LATER: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REQUEST_TIMED_OUT,
}


@contextmanager
def asked_meanwhile(cluster: ThreeMachines) -> Iterator[None]:
    """Clients look for their coordinators all the time, so a broker is asked as soon as it answers at all."""
    is_over = threading.Event()

    def ask(number: int) -> None:
        while not is_over.is_set():
            with suppress(OSError, AssertionError), Wire(cluster.brokers[number].bootstrap) as wire:
                while not is_over.wait(ASK_MEANWHILE_EVERY_S):
                    for kind in (GROUP, TRANSACTION):
                        wire.ask(FindCoordinatorRequest(key="name-0", key_type=kind), 1)
            is_over.wait(ASK_MEANWHILE_EVERY_S)

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in BROKERS]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


class Names:
    """The names of one cluster, and what clients were told of them."""

    def __init__(self, cluster: ThreeMachines) -> None:
        self._cluster = cluster
        self._commits = {f"kept-group-{number}": Committed() for number in range(KEPT_GROUPS)}
        self._producers: dict[str, tuple[int, int] | None] = {f"kept-id-{number}": None for number in range(KEPT_IDS)}

    def check(self, bound_s: float) -> list[str]:
        """The names that are still wrong after `bound_s`; raises NoProgressError if names are not served by then.

        Each group commits, and each transactional id is initialised, once more.
        """
        wrong: list[str] = []

        def are_right() -> bool:
            wrong[:] = [sentence for kind in (GROUP, TRANSACTION) for sentence in self._wrong(kind)]
            return not wrong

        if not wait_for(are_right, bound_s, ASK_EVERY_S):
            return wrong
        self._at_coordinators(GROUP, self._commits, lambda wire, name: self._commit(wire, name, wrong), bound_s)
        self._at_coordinators(TRANSACTION, self._producers, lambda wire, name: self._fence(wire, name, wrong), bound_s)
        return wrong

    def _wrong(self, kind: int) -> list[str]:
        topic = INTERNAL_TOPICS[kind]
        there = len(self._cluster.leaders(topic))
        expected = self._cluster.size.internal_partitions
        if there != expected:
            return [f"no progress: {topic} has {there} of {expected} partitions in ZooKeeper"]
        return [sentence for number in BROKERS for sentence in self._wrong_of(number, kind)]

    def _wrong_of(self, number: int, kind: int) -> list[str]:
        """A broker's answers, compared with its own leaders: those in ZooKeeper may be newer."""
        topic = INTERNAL_TOPICS[kind]
        try:
            with Wire(self._cluster.brokers[number].bootstrap) as wire:
                leaders = self._leaders(wire, topic)
                answers = {
                    name: self._coordinator(wire, name, kind) for name in (f"name-{each}" for each in range(ASKED))
                }
                if self._leaders(wire, topic) != leaders:
                    return [f"no progress: the leaders of {topic} change"]
        except (OSError, AssertionError) as error:
            return [f"no progress: broker {number} does not answer: {error!r}"]
        expected = self._cluster.size.internal_partitions
        if len(leaders) != expected:
            return [f"no progress: broker {number} has {len(leaders)} of the {expected} partitions of {topic}"]
        errors = {answer for answer in answers.values() if answer < 0}
        if errors:
            return [f"no progress: broker {number} names no coordinators of {topic}: {errors}"]
        return wrong_coordinators(topic, leaders, {number: answers})

    @staticmethod
    def _leaders(wire: Wire, topic: str) -> dict[int, int]:
        found = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 1)
        return {each.partition_index: each.leader_id for each in found.topics[0].partitions}

    @staticmethod
    def _coordinator(wire: Wire, name: str, kind: int) -> int:
        """The broker's id, or the error code with a minus."""
        found = wire.ask(FindCoordinatorRequest(key=name, key_type=kind), 1)
        return -int(found.error_code) if found.error_code else int(found.node_id)

    def _at_coordinators(
        self, kind: int, names: Collection[str], ask: Callable[[Wire, str], bool], bound_s: float
    ) -> None:
        """Ask each name's coordinator until `ask` has got an answer to keep."""
        missing = set(names)

        def are_answered() -> bool:
            leaders = self._cluster.leaders(INTERNAL_TOPICS[kind])
            places: dict[int, list[str]] = defaultdict(list)
            for name in sorted(missing):
                places[leaders[partition_of(name, len(leaders))]].append(name)
            for leader in set(BROKERS) & set(places):
                with suppress(OSError, AssertionError), Wire(self._cluster.brokers[leader].bootstrap) as wire:
                    missing.difference_update([name for name in places[leader] if ask(wire, name)])
            return not missing

        if not wait_for(are_answered, bound_s, ASK_EVERY_S):
            topic = INTERNAL_TOPICS[kind]
            raise NoProgressError(f"no progress: {len(missing)} names of {topic}, such as {sorted(missing)[:5]}")

    def _commit(self, wire: Wire, group: str, wrong: list[str]) -> bool:
        """Compare the committed offset of a group, and commit the next one."""
        fetched = wire.ask(OffsetFetchRequest(group, [OffsetFetchRequestTopic(KEPT_TOPIC, [0])]), 1)
        (found,) = fetched.topics[0].partitions
        if found.error_code in LATER:
            return False
        told = self._commits[group]
        wrong += lost_commit(group, told, found.committed_offset)
        told.sent += 1
        offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=told.sent)
        request = OffsetCommitRequest(
            group_id=group, topics=[OffsetCommitRequestTopic(KEPT_TOPIC, partitions=[offset])]
        )
        answer = wire.ask(request, 2).topics[0].partitions[0].error_code
        if answer == ErrorCode.NONE:
            told.acknowledged = told.sent
        return bool(answer == ErrorCode.NONE)

    def _fence(self, wire: Wire, name: str, wrong: list[str]) -> bool:
        """Initialise a transactional id, and compare its producer id and epoch."""
        found = wire.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TRANSACTION_MS), 1)
        if found.error_code in LATER:
            return False
        now = (found.producer_id, found.producer_epoch) if found.error_code == ErrorCode.NONE else (-1, -1)
        wrong += changed_producer(name, self._producers[name], now)
        self._producers[name] = now
        return True


def misplaced_names(cluster: ThreeMachines) -> list[str]:
    """Records of the internal topics that are in another partition than that of their name, in all brokers' logs."""
    return [
        f"{sentence}, on broker {number}"
        for number in BROKERS
        for topic in INTERNAL_TOPICS
        for sentence in misplaced(topic, cluster.size.internal_partitions, _names(cluster, number, topic))
    ]


def _names(cluster: ThreeMachines, number: int, topic: str) -> Mapping[int, set[str]]:
    found: dict[int, set[str]] = {}
    for partition in range(cluster.size.internal_partitions):
        found[partition] = set()
        for path in sorted((cluster.data(number) / f"{topic}-{partition}").glob("*.log")):
            content = path.read_bytes()
            for position, header in iterate_headers(content):
                if not header.is_control:
                    batch = content[position : position + header.size]
                    found[partition] |= {_name_of(record.key) for record in read_records(batch)}
    return found


def _name_of(key: Any) -> str:
    """The group or the transactional id, the first field of all keys of internal topics, after their version."""
    (size,) = struct.unpack_from(">h", key, 2)
    return bytes(key[4 : 4 + size]).decode()
