"""Conversations of the consumer protocol (KIP-848), for a broker that has topics ``t`` and ``u`` of two partitions.

``consumer_group_answers.json`` holds what Apache Kafka 4.4.0 answered
(``compat_tests/groups/record_consumer_group_answers.py``). The member ids are fixed: their hashes decide who gets which
partition. A topic id is replaced by the topic's name.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from harness.cases.group_cases import Talk
from harness.wire import Wire
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

A, B, C, D = "member-a", "member-b", "member-c", "member-d"
LEAVES, LEAVES_FOR_A_WHILE = -1, -2
VERSION, FIND, METADATA = 1, 3, 12
PATIENCE_S: Final = 0.2
MOST_TRIALS: Final = 100

Owned = Mapping[str, list[int]]


class ConsumerTalk(Talk):
    """One conversation."""

    def __init__(self, wire: Wire, group: str, topic_ids: Mapping[str, UUID], second: Wire | None = None) -> None:
        super().__init__(wire, second or wire, group, PATIENCE_S)
        self._wire = wire
        self._topic_ids = dict(topic_ids)
        self._names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._given = ""
        self.epochs: dict[str, int] = {}

    def plain(self, value: Any) -> Any:
        """A message as JSON values, topics by name."""
        if isinstance(value, str) and value and value == self._given:
            return "(given)"
        topic_id = getattr(value, "topic_id", None)
        if topic_id in self._names:
            return super().plain(value) | {"topic": self._names[topic_id]}
        return super().plain(value)

    def beat(self, member_id: str, epoch: int | None = None, *, version: int = VERSION, **fields: Any) -> Any:
        """Send a heartbeat, with the member's last epoch unless another is given."""
        self.send(self.request(member_id, epoch, **fields), version, 0)
        response = self._wire.receive()
        if not member_id:
            self._given = response.member_id
        self.transcript.append([type(response).__name__, self.plain(response)])
        if response.error_code == 0:
            self.epochs[member_id or response.member_id] = response.member_epoch
        return response

    def request(self, member_id: str, epoch: int | None, *, owned: Owned | None = None, **fields: Any) -> Message:
        """``owned`` are partitions by the names of topics."""
        partitions = owned if owned is None else [TopicPartitions(self._topic_ids[each], owned[each]) for each in owned]
        return ConsumerGroupHeartbeatRequest(
            **({"group_id": self.group} | fields),
            member_id=member_id,
            member_epoch=self.epochs.get(member_id, 1) if epoch is None else epoch,
            topic_partitions=partitions,
        )

    def first_beat(self, member_id: str, *topics: str, version: int = VERSION, **fields: Any) -> Any:
        """Send the first heartbeat of a member."""
        subscription = {"subscribed_topic_names": list(topics)} if topics else {}
        joined = {"rebalance_timeout_ms": 60_000, "owned": {}, **subscription, **fields}
        return self.beat(member_id, 0, version=version, **joined)

    def until_assigned(self, member_id: str) -> None:
        """Send heartbeats until one brings an assignment, which alone is kept."""
        for _ in range(MOST_TRIALS):
            response = self.beat(member_id)
            if response.error_code != 0 or response.assignment is not None:
                return
            self.transcript.pop()
            self._wire.has_answer(PATIENCE_S)

    def owned_after(self, response: Any) -> Owned:
        """The partitions of a heartbeat's response, by the names of topics."""
        assert response.assignment is not None
        return {self._names[each.topic_id]: list(each.partitions) for each in response.assignment.topic_partitions}

    def show(self, version: int = VERSION) -> None:
        """Describe the group."""
        self.ask(ConsumerGroupDescribeRequest([self.group], include_authorized_operations=True), version)


@contextmanager
def talking(bootstrap: str, group: str) -> Iterator[ConsumerTalk]:
    """A conversation with the broker there, which has the topics already, once it coordinates the group."""
    with Wire(bootstrap) as wire:
        yield ConsumerTalk(wire, group, coordinated_topics(wire, group))


def coordinated_topics(wire: Wire, group: str) -> dict[str, UUID]:
    """The ids of the topics, once the broker coordinates the group."""
    topic_ids = _topic_ids(wire)
    while wire.ask(FindCoordinatorRequest(group), FIND).error_code != 0:
        wire.has_answer(PATIENCE_S)
    while wire.ask(ConsumerGroupDescribeRequest([group]), VERSION).groups[0].error_code in (14, 15, 16):
        wire.has_answer(PATIENCE_S)
    return topic_ids


def _topic_ids(wire: Wire) -> dict[str, UUID]:
    topics = [MetadataRequestTopic(name=name) for name in ("t", "u")]
    while True:
        found = wire.ask(MetadataRequest(topics), METADATA).topics
        if not any(topic.error_code for topic in found):
            return {topic.name: topic.topic_id for topic in found}
        wire.has_answer(PATIENCE_S)


def one_member(talk: ConsumerTalk) -> None:
    """A member joins, is described in every state, changes its subscription, and leaves."""
    talk.show()
    talk.first_beat(A, "t")
    talk.show()
    talk.beat(A)
    talk.beat(A, owned={"t": [0, 1]})
    talk.show()
    talk.beat(A, subscribed_topic_names=["t", "u"])
    talk.beat(A, owned={"t": [0, 1], "u": [0, 1]})
    talk.show()
    talk.beat(A, subscribed_topic_names=["u"])
    talk.show()
    talk.beat(A, owned={"u": [0, 1]})
    talk.show()
    talk.beat(A, LEAVES)
    talk.show()
    talk.beat(A, 3)


def two_members(talk: ConsumerTalk) -> None:
    """A second member waits until the first one has given up a partition; then it leaves."""
    talk.first_beat(A, "t")
    talk.beat(A, owned={"t": [0, 1]})
    talk.first_beat(B, "t")
    talk.show()
    kept = talk.owned_after(talk.beat(A))
    talk.show()
    talk.beat(B, owned={})
    talk.beat(A, owned={"t": [0, 1]})
    talk.show()
    talk.beat(A, owned=kept)
    talk.show()
    talk.beat(B)
    talk.show()
    talk.beat(B, LEAVES)
    talk.show()
    talk.beat(A)
    talk.beat(A, owned={"t": [0, 1]})
    talk.show()


def three_members_of_two_topics(talk: ConsumerTalk) -> None:
    """Members with different subscriptions join and leave."""
    talk.first_beat(A, "t", "u")
    talk.beat(A, owned={"t": [0, 1], "u": [0, 1]})
    talk.first_beat(B, "u")
    kept = talk.owned_after(talk.beat(A))
    talk.beat(A, owned=kept)
    talk.beat(B)
    talk.first_beat(C, "t")
    talk.show()
    kept = talk.owned_after(talk.beat(A))
    talk.beat(A, owned=kept)
    talk.beat(B)
    talk.beat(C)
    talk.show()
    talk.beat(B, subscribed_topic_names=["t"])
    talk.show()
    talk.beat(A, LEAVES)
    talk.beat(B)
    talk.beat(C)
    talk.show()


def two_revocations(talk: ConsumerTalk) -> None:
    """A member loses further partitions before it has revoked the first ones; its epoch stays."""
    talk.first_beat(A, "t", "u")
    talk.beat(A, owned={"t": [0, 1], "u": [0, 1]})
    talk.first_beat(B, "t", "u")
    kept = talk.owned_after(talk.beat(A))
    talk.first_beat(C, "t", "u")
    talk.first_beat(D, "t", "u")
    kept = talk.owned_after(talk.beat(A, owned=kept))
    talk.show()
    talk.beat(A, owned=kept)
    talk.show()


def ranges(talk: ConsumerTalk) -> None:
    """A group with the assignor ``range``, which most members prefer."""
    talk.first_beat(A, "t", "u", server_assignor="range")
    talk.first_beat(B, "t", "u", server_assignor="range")
    talk.first_beat(C, "t", "u", server_assignor="uniform")
    talk.show()


def static_members(talk: ConsumerTalk) -> None:
    """A static member leaves for a while and returns with another id; the old id is fenced."""
    talk.first_beat(A, "t", instance_id="i")
    talk.beat(A, owned={"t": [0, 1]}, instance_id="i")
    talk.first_beat(B, "t", instance_id="i")
    talk.beat(A, instance_id="other")
    talk.beat(A)
    talk.beat(A, LEAVES_FOR_A_WHILE, instance_id="i")
    talk.show()
    talk.first_beat(B, "t", instance_id="i")
    talk.show()
    talk.beat(A, 2, instance_id="i")
    talk.beat(A, 2)
    talk.beat(B, owned={"t": [0, 1]}, instance_id="i")
    talk.beat(C, instance_id="unknown")
    talk.beat(B, LEAVES, instance_id="i")
    talk.show()


def epochs(talk: ConsumerTalk) -> None:
    """Heartbeats with epochs that are not the member's, and of members that do not exist."""
    first = talk.first_beat(A, "t").member_epoch
    talk.first_beat(A, "t")
    talk.beat(A, first + 1)
    talk.beat(A, first - 1)
    talk.beat(A, first - 1, owned={"t": [0, 1]})
    talk.beat(A, first - 1, owned={})
    talk.beat(B, 1)
    talk.beat(B, LEAVES)
    talk.beat(A, owned={"t": [0, 1]})
    talk.beat(A, subscribed_topic_names=["t", "u"])
    talk.beat(A, first)
    talk.beat(A, first, owned={"t": [0, 1]})
    talk.beat(A, first, owned={"t": [0]})
    talk.beat(A, first, owned={"t": [0, 1], "u": [0, 1]})
    talk.beat(A, first, owned={"u": [7]})
    talk.beat(A, first - 1, owned={"t": [0, 1]})
    talk.beat(A, owned={"u": [7]})
    talk.beat(A, owned={"t": [0, 1], "u": [0, 1]})
    talk.first_beat(A, "t", "u")
    talk.show()


def refused(talk: ConsumerTalk) -> None:
    """Requests that are refused, and some odd ones that are not."""
    talk.first_beat(A, "t", group_id="")
    talk.first_beat(A, "t", group_id="   ")
    talk.first_beat("", "t")
    talk.first_beat(A, "t", owned=None)
    talk.first_beat(A, "t", owned={"t": [0]})
    talk.first_beat(A, "t", rebalance_timeout_ms=-1)
    talk.first_beat(A)
    talk.first_beat(A, "t", instance_id="")
    talk.first_beat(A, "t", rack_id="")
    talk.first_beat(A, "t", server_assignor="nope")
    talk.first_beat(A, "t", server_assignor="")
    talk.first_beat(A, subscribed_topic_regex="t(")
    talk.first_beat(A, "t", subscribed_topic_regex="t[")
    talk.beat(A, -3)
    talk.beat(A, LEAVES_FOR_A_WHILE)
    talk.beat(A, LEAVES_FOR_A_WHILE, instance_id="i")
    talk.beat("", 1)
    talk.beat("", LEAVES)
    talk.beat(A, 1)
    talk.show()
    talk.first_beat(A, "t", rebalance_timeout_ms=0)
    talk.beat(A, instance_id="")
    talk.beat(A, rebalance_timeout_ms=-7)
    talk.beat(A, server_assignor="nope")
    talk.beat(A, subscribed_topic_regex="(")
    talk.show()


def odd_subscriptions(talk: ConsumerTalk) -> None:
    """A member without topics, with topics that do not exist, and with other settings."""
    talk.first_beat(A, subscribed_topic_names=[])
    talk.show()
    talk.beat(A, subscribed_topic_names=["absent", ""])
    talk.show()
    talk.beat(A, subscribed_topic_names=["t", "t", "absent"])
    talk.show()
    talk.beat(A, owned={"t": [0, 1]}, server_assignor="range", rack_id="r", rebalance_timeout_ms=5)
    talk.show()
    talk.first_beat(B, "t")
    talk.show()
    talk.beat(A)


def expressions(talk: ConsumerTalk) -> None:
    """A subscription by a regular expression, which is resolved later; then by names too, then by names alone."""
    talk.first_beat(A, subscribed_topic_regex="t|x.*")
    talk.until_assigned(A)
    talk.beat(A, owned={"t": [0, 1]})
    talk.show()
    talk.beat(A, subscribed_topic_names=["u"])
    talk.show()
    talk.beat(A, owned={"t": [0, 1], "u": [0, 1]})
    talk.beat(A, subscribed_topic_regex="")
    talk.beat(A, owned={"u": [0, 1]})
    talk.show()


def first_version(talk: ConsumerTalk) -> None:
    """Version 0: the broker gives the member its id, and describes without the members' types."""
    given = talk.first_beat("", "t", version=0).member_id
    talk.beat(given, owned={"t": [0, 1]}, version=0)
    talk.show(0)
    talk.beat(given, LEAVES, version=0)
    talk.show(0)


def lost_response(talk: ConsumerTalk) -> None:
    """A member confirms that it has revoked, with a later group epoch, and repeats its request."""
    talk.first_beat(A, "t")
    talk.first_beat(B, "t")
    kept = talk.owned_after(talk.beat(A))
    talk.beat(B, subscribed_topic_names=["t", "u"])
    confirmed = talk.epochs[A]
    talk.beat(A, confirmed, owned=kept)
    talk.beat(A, confirmed, owned=kept)
    talk.show()


def interval(talk: ConsumerTalk) -> None:
    """A second member gets its assignment when ``group.consumer.assignment.interval.ms`` has passed."""
    talk.first_beat(A, "t")
    talk.first_beat(B, "t")
    talk.show()
    talk.beat(A, owned={"t": [0, 1]})
    talk.until_assigned(A)
    talk.show()


def other_topic_within_the_interval(talk: ConsumerTalk) -> None:
    """A member gives up the partitions of a topic before there is a new target assignment."""
    talk.first_beat(A, "t", "u")
    talk.first_beat(B, "t")
    talk.beat(A, subscribed_topic_names=["t"])
    talk.beat(A, subscribed_topic_names=["v"])
    talk.beat(A, owned={"t": [0, 1]})
    talk.beat(A, subscribed_topic_names=["u"])
    talk.show()
    talk.beat(A, owned={})
    talk.beat(A, subscribed_topic_names=["v"], owned={})
    talk.show()


def preferences(talk: ConsumerTalk) -> None:
    """The members prefer different assignors, as many of them each."""
    talk.first_beat(A, "t", server_assignor="uniform")
    talk.first_beat(B, "t", server_assignor="range")
    talk.show()
    talk.beat(A, server_assignor="range")
    talk.beat(B, server_assignor="uniform")
    talk.show()
    talk.first_beat(C, "t", server_assignor="range")
    talk.show()


CONVERSATIONS: Final[dict[str, Callable[[ConsumerTalk], None]]] = {
    "one member": one_member,
    "two members": two_members,
    "three members of two topics": three_members_of_two_topics,
    "two revocations": two_revocations,
    "ranges": ranges,
    "static members": static_members,
    "epochs": epochs,
    "refused": refused,
    "odd subscriptions": odd_subscriptions,
    "regular expressions": expressions,
    "first version": first_version,
    "preferences": preferences,
    "lost response": lost_response,
}

AT_DEFAULTS: Final[dict[str, Callable[[ConsumerTalk], None]]] = {
    "interval": interval,
    "other topic within the interval": other_topic_within_the_interval,
}
"""For a broker without ``AT_ONCE``."""
AT_ONCE: Final = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
}
"""Keys of a broker that assigns before it answers, so that answers do not depend on the time."""


def hold(name: str, bootstrap: str, group: str) -> list[Any]:
    """The transcript of one conversation, with an unused group."""
    with talking(bootstrap, group) as talk:
        (CONVERSATIONS | AT_DEFAULTS)[name](talk)
    return talk.transcript
