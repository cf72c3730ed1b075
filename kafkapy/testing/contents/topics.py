"""Topics of a broker in a test, through the handlers that serve clients."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.testing.errors import RequestRefusedError

TIMEOUT_MS: Final = 30_000
DEFAULT_REPLICATION: Final = -1
"""The replication factor of a CreateTopics request for that of ``default.replication.factor``."""

PREFERRED: Final = 0
"""``election_type`` of an ElectLeaders request."""


class TopicShape(NamedTuple):
    """Partitions, replicas and settings of a new topic; without ``replication_factor`` its broker chooses it."""

    partitions: int = 1
    replication_factor: int | None = None
    configs: Mapping[str, str] = MappingProxyType({})


class Requests(Protocol):
    """``server.dispatch.local_requests.LocalRequests``: the broker's handlers without a socket."""

    def handle(self, request: Message, version: int, /) -> Any:
        """Answer ``request``, at once or as an awaitable."""
        ...


def check(error_code: int, message: str | None, what: str) -> None:
    """Raise ``RequestRefusedError`` unless ``error_code`` is 0; its message begins with ``what``."""
    if error_code:
        code = ErrorCode(error_code)
        raise RequestRefusedError(f"{what}: {code.name} ({error_code}): {message or code.message}", error_code)


async def create_topic(requests: Requests, name: str, shape: TopicShape, *, exist_ok: bool = False) -> None:
    """Create a topic, and wait for its leaders. Raises ``RequestRefusedError``."""
    factor = DEFAULT_REPLICATION if shape.replication_factor is None else shape.replication_factor
    configs = [CreatableTopicConfig(*pair) for pair in shape.configs.items()]
    topic = CreatableTopic(name, shape.partitions, factor, configs=configs)
    answer = (await requests.handle(CreateTopicsRequest([topic], TIMEOUT_MS), 5)).topics[0]
    if exist_ok and answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return
    check(answer.error_code, answer.error_message, f"topic {name!r} can't be created")


async def delete_topic(requests: Requests, name: str) -> None:
    """Delete a topic and its records. Raises ``RequestRefusedError``."""
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
    answer = (await requests.handle(request, 4)).responses[0]
    check(answer.error_code, None, f"topic {name!r} can't be deleted")


async def elect_preferred_leaders(requests: Requests) -> None:
    """Give the leadership of every partition to its preferred replica, where that is in sync."""
    from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest  # only clusters need it

    await requests.handle(ElectLeadersRequest(PREFERRED, None), 2)
