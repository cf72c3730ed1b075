"""Conversations of a transactional client, with right and wrong requests: each gives a list of the answers.

``record_answers`` has held them with Apache Kafka 2.7.2 and keeps its answers.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from compat_tests.groups.wire import find_coordinator
from compat_tests.transactions.talk import Producer, Talk
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest

Conversation = Callable[[Talk], list[Any]]
APIS = (22, 24, 25, 26, 27, 28)


def versions(talk: Talk) -> list[Any]:
    listed = {
        each.api_key: (each.min_version, each.max_version) for each in talk.wire.ask(ApiVersionsRequest(), 0).api_keys
    }
    return [[key, *listed[key]] for key in APIS]


def coordinators(talk: Talk) -> list[Any]:
    return [talk.coordinator(), talk.coordinator(""), talk.coordinator("äöü")]


def initialize_limits(talk: Talk) -> list[Any]:
    talk.coordinator()
    heard: list[Any] = []
    for timeout_ms in (0, -1, 1, 900_000, 900_001):
        heard += [talk.settled(partial(talk.initialize, timeout_ms=timeout_ms))[0]]
    heard += [talk.initialize(producer=each)[0] for each in ((7, -1), (-1, 3))]
    heard += [talk.initialize(name=None, producer=(7, 3))[0]]
    return [*heard, talk.wire.ask(InitProducerIdRequest("", 60_000), 4).error_code]


def epochs(talk: Talk) -> list[Any]:
    """Each initialization bumps the epoch; one that names itself may repeat its last."""
    producer_id, _ = talk.producer()

    def ask(version: int, epoch: int = -1, of: int | None = None) -> list[Any]:
        producer = (-1, -1) if epoch < 0 else (producer_id if of is None else of, epoch)
        code, found, bumped = talk.settled(lambda: talk.initialize(version, producer=producer))
        return [code, found == producer_id, bumped]

    return [
        *[ask(version) for version in range(5)],
        ask(3, 5), ask(3, 5), ask(4, 5), ask(4, 6), ask(3, 4), ask(4, 4), ask(4, 9), ask(4, 7, producer_id + 1),
        ask(4), ask(4, 7), ask(4, 8),
    ]  # fmt: skip


def initialize_over_open(talk: Talk) -> list[Any]:
    old = talk.producer()
    talk.begin(old)
    heard: list[Any] = [talk.write(old, 0, b"left"), talk.initialize()[0]]
    new = talk.producer()
    heard += [new[0] == old[0], new[1] - old[1], talk.seen(), talk.ends()]
    heard += [talk.end(old), talk.add(old), talk.add_offsets(old), talk.write(old, 1), talk.write(new, 0)]
    return heard


def named_over_open(talk: Talk) -> list[Any]:
    """KIP-360: the producer itself goes on after an error within its transaction."""
    old = talk.producer()
    talk.begin(old)
    heard: list[Any] = [talk.write(old, 0, b"left"), talk.initialize(producer=(old[0], old[1] + 3))[0]]
    heard += [talk.settled(lambda: talk.initialize(producer=old))[0]]
    return [*heard, talk.producer()[1] - old[1]]


def fenced(talk: Talk) -> list[Any]:
    """A producer with an old epoch, and one with a later, by version."""
    old = talk.producer()
    new = talk.producer()
    heard: list[Any] = []
    for producer in (old, (new[0], new[1] + 1), (new[0], -1)):
        heard += [[talk.add(producer, version=version) for version in range(3)]]
        heard += [[talk.add_offsets(producer, version) for version in range(3)]]
        heard += [[talk.end(producer, version=version) for version in range(3)]]
    heard += [[talk.initialize(version, producer=old)[0] for version in (3, 4)]]
    return heard


def foreign(talk: Talk) -> list[Any]:
    """Producer ids and transactional ids that don't belong together, or don't exist."""
    producer = talk.producer()
    other = (producer[0] + 500_000, producer[1])
    heard: list[Any] = [talk.add(other), talk.add_offsets(other), talk.end(other), talk.initialize(producer=other)[0]]
    heard += [talk.add((-1, -1)), talk.end((-1, -1))]
    for name in ("nobody", ""):
        heard += [talk.add(producer, name=name), talk.add_offsets(producer, name=name), talk.end(producer, name=name)]
    return heard


def partitions(talk: Talk) -> list[Any]:
    producer = talk.producer()
    topic = talk.topic
    return [
        talk.add(producer, {topic: [9]}),
        talk.add(producer, {topic: [0, 9], "nowhere-x": [0]}),
        talk.add(producer, {topic: [0], "__consumer_offsets": [0]}),
        talk.add(producer, {topic: [0], "__transaction_state": [0], "nowhere-x": [0]}),
        talk.add(producer, {}),
        talk.ended(producer),  # without a partition
        talk.add(producer, {topic: [0, 0]}),
        talk.add(producer, {topic: [1, 0]}),
        talk.add(producer, {topic: [1]}),
        talk.add_offsets(producer, group=""),
        talk.ended(producer),
    ]


def ends(talk: Talk) -> list[Any]:
    """EndTxn in every state."""
    producer = talk.producer()
    heard: list[Any] = [talk.end(producer, commit) for commit in (True, False)]
    for commit in (True, False):
        talk.begin(producer)
        heard += [talk.ended(producer, commit), talk.end(producer, commit), talk.end(producer, not commit)]
    talk.begin(producer, 0, 1)
    talk.write(producer, 0)
    heard += [talk.ended(producer), talk.end(producer, version=0), talk.end(producer, version=1)]
    producer = talk.producer()
    return [*heard, talk.end(producer), talk.end(producer, commit=False)]


def sequences(talk: Talk) -> list[Any]:
    """Produce within transactions, in order and not."""
    producer = talk.producer()
    talk.begin(producer)
    heard: list[Any] = [
        talk.write(producer, 0, b"a", b"b"),
        talk.write(producer, 0, b"a", b"b"),
        talk.write(producer, 3),
    ]
    heard += [talk.write(producer, 1), talk.write(producer, 2, b"c")]
    heard += [talk.write(producer, 3, is_transactional=False), talk.write(producer, 3, name=None)]
    heard += [talk.write((producer[0], producer[1] + 1), 3), talk.ends(), talk.ended(producer), talk.ends()]
    heard += [talk.write(producer, 3, b"plain", is_transactional=False)]
    talk.begin(producer)
    heard += [talk.write(producer, 5), talk.write(producer, 4, b"d"), talk.ended(producer, commit=False)]
    return [*heard, talk.seen(), talk.aborted(), talk.ends()]


def without_adding(talk: Talk) -> list[Any]:
    """Nobody asks whether the partition was added: 2.7 writes it, and no marker ever comes."""
    producer = talk.producer()
    heard: list[Any] = [talk.write(producer, 0, b"hangs"), talk.ends(), talk.end(producer)]
    heard += [talk.write((producer[0] + 500_000, 4), 7, b"foreign"), talk.seen(), talk.ends()]
    heard += [talk.markers(producer, commit=False), talk.ends()]
    return [*heard, talk.markers((producer[0] + 500_000, 4)), talk.seen(), talk.ends()]


def after_a_bump(talk: Talk) -> list[Any]:
    """A new epoch begins with sequence 0, the old one can't write, and its marker is refused."""
    old = talk.producer()
    talk.begin(old)
    heard: list[Any] = [talk.write(old, 0, b"a"), talk.ended(old)]
    new = talk.producer()
    talk.begin(new)
    heard += [talk.write(new, 1), talk.write(new, 0, b"b"), talk.write(old, 1, b"zombie"), talk.markers(old)]
    return [*heard, talk.ended(new), talk.seen()]


def markers(talk: Talk) -> list[Any]:
    """Markers from an ordinary client: 2.7 without ACLs takes them."""
    producer = talk.producer()
    talk.begin(producer)
    heard: list[Any] = [talk.markers(producer, topics={"nowhere-x": [0], talk.topic: [9]})]
    heard += [talk.write(producer, 0, b"a"), talk.ends(), talk.markers(producer, epoch=5), talk.seen(), talk.ends()]
    heard += [talk.markers(producer, epoch=4), talk.markers(producer, epoch=5), talk.markers(producer, epoch=6)]
    later = (producer[0], producer[1] + 2)
    heard += [talk.markers(later, commit=False, epoch=6), talk.markers(producer, epoch=7), talk.aborted(), talk.ends()]
    heard += [talk.write(producer, 1), talk.write(later, 1), talk.write(later, 0, b"b"), talk.seen()]
    heard += [talk.markers(later, epoch=7, topics={talk.topic: [0, 1]}), talk.seen(), talk.markers(later, topics={})]
    return heard


def stranded(talk: Talk) -> list[Any]:
    """After a foreign marker of a later epoch the coordinator can't end the transaction: it waits for ever."""
    producer = talk.producer()
    talk.begin(producer)
    heard: list[Any] = [talk.write(producer, 0, b"a"), talk.markers((producer[0], producer[1] + 9), epoch=0)]
    heard += [talk.end(producer)]
    talk.wire.has_answer(0.3)
    return [*heard, talk.add(producer), talk.end(producer), talk.initialize()[0], talk.ends()]


def offsets(talk: Talk) -> list[Any]:
    producer = talk.producer()
    talk.member()
    heard: list[Any] = []
    for version, commit in ((0, True), (1, False), (2, True), (3, False), (3, True)):
        heard += [talk.settled(lambda: talk.add_offsets(producer))]
        heard += [talk.commit_offset(producer, 10 + len(heard), version), talk.committed(5)]
        heard += [talk.committed(7), talk.committed(7, stable=True), talk.ended(producer, commit)]
        heard += [talk.settled(lambda: 51 if talk.committed(7, stable=True)[0] else 0), talk.committed(5)]
    return heard


def offsets_refused(talk: Talk) -> list[Any]:
    producer = talk.producer()
    member, generation = talk.member()
    by_member: dict[str, Any] = {"member_id": member, "generation_id": generation}
    return [
        talk.commit_offset(producer, topic="nowhere-x"),
        talk.commit_offset(producer, partition=9),
        talk.commit_offset(producer, group=""),
        talk.commit_offset(producer, metadata="m" * 5000),
        talk.commit_offset(producer, member_id="nobody"),
        talk.commit_offset(producer, generation_id=generation),
        talk.commit_offset(producer, generation_id=generation + 1),
        talk.commit_offset(producer, **by_member),
        talk.commit_offset(producer, **{**by_member, "generation_id": 0}),
        talk.commit_offset(producer, **{**by_member, "generation_id": -1}),
        talk.commit_offset(producer, **{**by_member, "group_instance_id": "nobody"}),
        talk.commit_offset(producer, group_instance_id="nobody"),
        talk.commit_offset(producer, member_id="nobody", generation_id=generation + 1),
    ]


def offsets_of_nobody(talk: Talk) -> list[Any]:
    """A group that does not exist is made; the producer need not be anybody either."""
    producer = talk.producer()
    talk.member()
    talk.group += "-other"
    find_coordinator(talk.wire, talk.group)
    heard: list[Any] = [talk.commit_offset(producer, generation_id=3), talk.commit_offset((producer[0] + 500_000, 2))]
    heard += [talk.commit_offset((producer[0] + 500_000, 1)), talk.commit_offset((-1, -1)), talk.committed(5)]
    return heard


def offsets_fenced(talk: Talk) -> list[Any]:
    """The partition of the group knows the producer's epoch once a later one has ended there."""
    old = talk.producer()
    talk.member()
    heard: list[Any] = [talk.add_offsets(old), talk.commit_offset(old, 1), talk.ended(old)]
    new = talk.producer()
    heard += [talk.commit_offset(old, 2), talk.add_offsets(new), talk.commit_offset(new, 3)]
    # to another partition: 2.7 forgets a pending offset of this one when it refuses the next
    heard += [talk.commit_offset(old, 4, partition=1)]
    return [
        *heard,
        talk.ended(new),
        talk.settled(lambda: 51 if talk.committed(7, stable=True)[0] else 0),
        talk.committed(5),
    ]


def isolation(talk: Talk) -> list[Any]:
    """Two producers interleaved: the records that each isolation level returns, as the transactions end."""
    first = talk.producer()
    second = Talk(talk.wire, f"{talk.name}-2")
    second.topic = talk.topic
    other = second.producer()
    talk.begin(first)
    second.begin(other)
    heard: list[Any] = [talk.write(first, 0, b"a"), second.write(other, 0, b"b"), talk.ends(), talk.seen()]
    heard += [second.ended(other), talk.ends(), talk.seen()]
    heard += [talk.write(first, 1, b"c"), talk.ended(first, commit=False), talk.ends(), talk.seen(), talk.aborted()]
    talk.begin(first)
    heard += [talk.write(first, 2, b"d"), talk.ended(first), talk.ends(), talk.seen(), talk.aborted()]
    return heard


def reused(talk: Talk) -> list[Any]:
    """Many transactions one after another."""
    producer: Producer = talk.producer()
    heard = []
    for number in range(10):
        talk.begin(producer)
        talk.write(producer, number, b"%d" % number)
        heard.append(talk.ended(producer, commit=number % 3 != 0))
    return [*heard, talk.seen(), talk.aborted(), talk.ends()]


ALL: dict[str, Conversation] = {
    each.__name__: each
    for each in (
        versions, coordinators, initialize_limits, epochs, initialize_over_open, named_over_open, fenced, foreign,
        partitions, ends, sequences, without_adding, after_a_bump, markers, stranded, offsets, offsets_refused,
        offsets_of_nobody, offsets_fenced, isolation, reused,
    )
}  # fmt: skip
