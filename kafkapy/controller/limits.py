"""Bounds on what clients can create: the replicas of all topics together, and topics created by name alone.

A CreateTopics request of 60 bytes may ask for 2³¹-1 partitions. The bounds are therefore checked with numbers alone,
before anything is allocated for a partition.
"""

import math
from collections.abc import Container
from typing import Final, NamedTuple

from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.own_keys import AUTO_CREATE_RATE, MAX_REPLICAS
from kafkapy.metadata.errors import PolicyViolationError
from kafkapy.metadata.image import MetadataImage
from kafkapy.turns import Steps

BURST_S: Final = 10
"""The seconds whose permitted number of topics automatic creation may use at once."""


class _PendingReplicas(NamedTuple):
    """``replicas`` replicas that are being created for a topic, which then has ``partitions`` partitions."""

    topic: str
    partitions: int
    replicas: int


class ReplicaLimit:
    """Keeps the replicas of all topics together within ``kafkapy.max.replicas``.

    Three kinds of replicas count: those in the metadata image; those that a request is about to write
    (``Admissions``, until the request ends); and those that were written but are not in the image yet. The last kind
    follows from what is known of the topic: it ends when the image has as many partitions (``seen``), and when the
    topic is deleted (``deleted``) or is not in the store (``settle``). So it does not matter whether a request waits
    for its topics, or how it ends.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._written: dict[str, list[_PendingReplicas]] = {}
        self._replicas_being_created = 0

    def check(self, image: MetadataImage, replicas: int) -> None:
        """Raise PolicyViolationError if there can't be ``replicas`` more."""
        limit = self._config.integer(MAX_REPLICAS)
        existing = image.replica_count + self._replicas_being_created
        if existing + replicas > limit:
            raise PolicyViolationError(
                f"{replicas} more replicas are too many: there are {existing}, and at most {limit} are allowed for "
                f"all topics together ({MAX_REPLICAS})."
            )

    def admissions(self) -> "Admissions":
        """Return the admissions of one request, for a ``with`` statement."""
        return Admissions(self)

    def seen(self, image: MetadataImage, topic: str) -> None:
        """Stop counting the written replicas of a topic that are in the image now."""
        found = image.topics.get(topic)
        if found is not None and topic in self._written:
            partitions = len(found.partitions)
            self._keep(topic, [each for each in self._written[topic] if each.partitions > partitions])

    def deleted(self, topic: str) -> None:
        """Stop counting the written replicas of a topic that is deleted now."""
        if topic in self._written:
            self._keep(topic, [])

    def settle(self, image: MetadataImage, names: Container[str] | None = None) -> Steps[None]:
        """Stop counting replicas that are in the image, or whose topic is not among ``names``, the topics in the store.

        A step is a topic.
        """
        for topic in list(self._written):
            yield
            if names is not None and topic not in names:
                self.deleted(topic)
            else:
                self.seen(image, topic)

    def count(self, replicas: int) -> None:
        """Count ``replicas`` more as being created; a negative number: less. For ``Admissions``."""
        self._replicas_being_created += replicas

    def add_written(self, admission: _PendingReplicas) -> None:
        """Take over an admission of a request, whose replicas are counted already. For ``Admissions``."""
        self._written.setdefault(admission.topic, []).append(admission)

    def _keep(self, topic: str, kept: list[_PendingReplicas]) -> None:
        before = self._written.pop(topic)
        if kept:
            self._written[topic] = kept
        self.count(sum(each.replicas for each in kept) - sum(each.replicas for each in before))


class Admissions:
    """The replicas that were admitted for one request; the unwritten ones are released at the end of ``with``."""

    def __init__(self, limit: ReplicaLimit) -> None:
        self._limit = limit
        self._admitted: dict[str, _PendingReplicas] = {}

    def __enter__(self) -> "Admissions":
        return self

    def __exit__(self, *_: object) -> None:
        for topic in list(self._admitted):
            self.withdraw(topic)

    def admit(self, image: MetadataImage, topic: str, partitions: int, replicas: int) -> None:
        """Count ``replicas`` more for ``topic``, which will have ``partitions``; raises PolicyViolationError.

        A topic is admitted once, until it is written or withdrawn.
        """
        assert topic not in self._admitted, "a request that names a topic twice is refused"
        self._limit.check(image, replicas)
        self._limit.count(replicas)
        self._admitted[topic] = _PendingReplicas(topic, partitions, replicas)

    def withdraw(self, topic: str) -> None:
        """Release the admission of a topic, if there is one: this request does not create it."""
        admission = self._admitted.pop(topic, None)
        if admission is not None:
            self._limit.count(-admission.replicas)

    def written(self, topic: str) -> None:
        """The store has the topic: keep counting its replicas until the image has them, or the topic is deleted."""
        admission = self._admitted.pop(topic, None)
        if admission is not None:
            self._limit.add_written(admission)


class CreationRate:
    """Limits automatic creation to ``kafkapy.auto.create.topics.per.second``, with a burst of ``BURST_S`` seconds."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._used_up_until_s = -math.inf

    def take(self) -> bool:
        """Permit one more topic; False if it must be created later."""
        now_s = self._clock.monotonic_s()
        next_s = max(self._used_up_until_s, now_s - BURST_S) + 1 / self._config.integer(AUTO_CREATE_RATE)
        if next_s > now_s:
            return False
        self._used_up_until_s = next_s
        return True
