"""A client of coordinators: it finds the coordinator of a name at some broker, and asks until it gets an answer."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kafkapy.network.peer_connection import PeerTimes
from kafkapy.protocol.constants import GROUP_KEY, TRANSACTIONAL_ID_KEY
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.simulation.cluster.clients import TIMES, Client
from tests.simulation.cluster.invariants import Violation
from tests.simulation.cluster.schedule import BROKERS

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

RETRIED: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
"""The errors that a cluster under faults may answer to correct clients. All others are final for some client: that a
topic does not exist, that a transactional id has another producer."""


def errors_in(part: Any) -> Iterator[int]:
    """Return the error codes of a response or of a part of it, 0 for none, at any depth."""
    for name in part.__slots__:
        value = getattr(part, name)
        if name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "__slots__"):
                    yield from errors_in(each)


def refuse(response: Any, what: str, broker: int, allowed: frozenset[ErrorCode] = RETRIED) -> None:
    """Raise ``Violation`` if a response has an error that clients must not get."""
    refused = sorted(set(errors_in(response)) - allowed - {0})
    if refused:
        raise Violation(
            f"broker {broker} has answered {what} with {', '.join(ErrorCode(each).name for each in refused)}"
        )


class CoordinatorClient(Client):
    """``unanswered`` counts requests that a broker may still execute later, or has executed."""

    def __init__(self, world: "World", name: str, times: PeerTimes = TIMES) -> None:
        super().__init__(world, name, times)
        self.unanswered = 0

    async def ask(self, broker: int, request: Message, version: int) -> Any:
        """See ``Client``."""
        response = await super().ask(broker, request, version)
        if response is None:
            self.unanswered += 1
        answer = "nothing" if response is None else [code for code in errors_in(response) if code] or "success"
        self._world.note(f"{type(request).__name__} is answered by broker {broker}: {answer}")
        return response

    async def of_group(self, group: str, request: Message, version: int) -> Any:
        """Return the answer of a group's coordinator that has no error."""
        return await self._of_coordinator(GROUP_KEY, group, request, version)

    async def of_transactional_id(
        self, transactional_id: str, request: Message, version: int, last: frozenset[ErrorCode] = frozenset()
    ) -> Any:
        """Return the answer of a transactional id's coordinator that has no error, or one of ``last``."""
        return await self._of_coordinator(TRANSACTIONAL_ID_KEY, transactional_id, request, version, last)

    async def find(self, broker: int, key_type: int, name: str) -> int:
        """Return whom a broker names as coordinator, -1 if it names none."""
        found = await super().ask(broker, FindCoordinatorRequest(name, key_type), 2)
        return -1 if found is None or found.error_code else found.node_id

    async def _of_coordinator(
        self, key_type: int, name: str, request: Message, version: int, last: frozenset[ErrorCode] = frozenset()
    ) -> Any:
        while True:
            coordinator = await self.find(self.random.choice(BROKERS), key_type, name)
            if coordinator >= 0:
                response = await self.ask(coordinator, request, version)
                if response is not None:
                    refuse(response, f"{type(request).__name__} of {name}", coordinator, RETRIED | last)
                    if not set(errors_in(response)) - {0} - last:
                        return response
            await asyncio.sleep(0.05)
