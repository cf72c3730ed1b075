"""Bounds on what clients can create: the replicas of all topics together, and topics created by name alone.

A CreateTopics request of 60 bytes may ask for 2³¹-1 partitions. The bounds are therefore checked with numbers alone,
before anything is allocated for a partition.
"""

import math
from typing import Final, NamedTuple

from kafkapy.clock import Clock
from kafkapy.cluster.errors import PolicyViolationError
from kafkapy.cluster.image import MetadataImage
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.own_keys import AUTO_CREATE_RATE, MAX_REPLICAS
from kafkapy.turns import Steps

BURST_S: Final = 10
"""Automatic creation may use the permitted number of this many seconds at once."""


class _Creation(NamedTuple):
    """A topic that will have ``partitions`` partitions, for which ``replicas`` replicas are being created."""

    partitions: int
    replicas: int


class ReplicaLimit:
    """Keeps the replicas of all topics together within ``kafkapy.max.replicas``.

    Counts those in the metadata image and those that were admitted but are not in the image yet, so that neither the
    topics of one request nor concurrent requests exceed the limit.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._being_created: dict[str, _Creation] = {}
        self._replicas_being_created = 0

    def admit(self, image: MetadataImage, topic: str, partitions: int, replicas: int) -> None:
        """Count ``replicas`` more for ``topic``, which will have ``partitions``; raises PolicyViolationError."""
        self.check(image, replicas)
        before = self._being_created.get(topic, _Creation(0, 0))
        self._being_created[topic] = _Creation(max(partitions, before.partitions), replicas + before.replicas)
        self._replicas_being_created += replicas

    def check(self, image: MetadataImage, replicas: int) -> None:
        """Raise PolicyViolationError if there can't be ``replicas`` more."""
        limit = self._config.integer(MAX_REPLICAS)
        existing = image.replica_count + self._replicas_being_created
        if existing + replicas > limit:
            raise PolicyViolationError(
                f"{replicas} more replicas are too many: there are {existing}, and at most {limit} are allowed for "
                f"all topics together ({MAX_REPLICAS})."
            )

    def release(self, topic: str) -> None:
        """Stop counting a topic as being created: the image has it, or it was not created."""
        creation = self._being_created.pop(topic, None)
        if creation is not None:
            self._replicas_being_created -= creation.replicas

    def release_created(self, image: MetadataImage) -> Steps[None]:
        """Stop counting the topics that the image has by now; a step is a topic."""
        for topic, creation in list(self._being_created.items()):
            yield
            found = image.topics.get(topic)
            if found is not None and len(found.partitions) >= creation.partitions:
                self.release(topic)


class CreationRate:
    """Limits automatic creation to ``kafkapy.auto.create.topics.per.second``, with a burst of ``BURST_S`` seconds."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._used_up_until_s = -math.inf

    def take(self) -> bool:
        """Permit one more topic, or return False: later."""
        now_s = self._clock.monotonic_s()
        next_s = max(self._used_up_until_s, now_s - BURST_S) + 1 / self._config.integer(AUTO_CREATE_RATE)
        if next_s > now_s:
            return False
        self._used_up_until_s = next_s
        return True
