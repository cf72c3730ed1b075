"""The channel between the controller and the brokers, on which metadata arrive in random parts.

A controller may describe the partitions of the cluster in as many UpdateMetadata requests as it wants. Apache Kafka's
sends one without partitions first, when it is elected, and then a few with partitions; kafkapy's sends the partitions
that got new leaders before the others. ``PartsChannel`` makes more of them: it cuts a request into parts, each a
request with some of the partitions, in a drawn order and with drawn pauses. Nothing overtakes: the requests of one
controller to one broker stay in a queue, as on the real channel, and a part that is not answered is sent again with all
others. A broker that takes a part for the whole concludes that there are fewer partitions than there are.
"""

import asyncio
from copy import copy
from random import Random
from typing import Final, TypeVar

from kafkapy.network.peer import BrokerChannel
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataTopicState

M = TypeVar("M", bound=Message)

PARTS_MAX: Final = 5
PAUSES_S: Final = (0.0, 0.0, 0.01, 0.2, 0.6)
"""Longest pauses before a part."""


def parts_of(request: UpdateMetadataRequest, random: Random) -> list[UpdateMetadataRequest]:
    """Cut a request into those that a broker gets instead, in their order.

    This is the rule of what a broker may rely on: a request without partitions stays as it is, and one with partitions
    may be followed by others with partitions that belong to it.
    """
    states = [(topic, state) for topic in request.topic_states for state in topic.partition_states]
    random.shuffle(states)
    count = random.randint(1, max(min(PARTS_MAX, len(states)), 1))
    cuts = sorted(random.sample(range(1, len(states)), count - 1)) if count > 1 else []
    parts = []
    for start, end in zip([0, *cuts], [*cuts, len(states)], strict=True):
        topics: dict[str, UpdateMetadataTopicState] = {}
        for topic, state in states[start:end]:
            topics.setdefault(topic.topic_name, _with(topic, "partition_states", [])).partition_states.append(state)
        parts.append(_with(request, "topic_states", list(topics.values())))
    return parts


def _with(message: M, field: str, value: object) -> M:
    """Return a copy of a message with another value of one field."""
    made = copy(message)
    setattr(made, field, value)
    return made


class PartsChannel:
    """A ``BrokerChannel`` that cuts UpdateMetadata requests, and passes everything on to ``channel``."""

    def __init__(self, channel: BrokerChannel, random: Random) -> None:
        self._channel = channel
        self._random = random

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        """Send a request, or its parts one after the other; return the last response, or the first with an error."""
        if not isinstance(request, UpdateMetadataRequest):
            return await self._channel.send(broker_id, request, version)
        first, *others = parts_of(request, self._random)
        response = await self._channel.send(broker_id, first, version)
        for part in others:
            if getattr(response, "error_code", 0):
                break
            await asyncio.sleep(self._random.choice(PAUSES_S) * self._random.random())
            response = await self._channel.send(broker_id, part, version)
        return response
