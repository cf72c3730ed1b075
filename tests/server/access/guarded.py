"""A broker with an authorizer in this process, and a client of a principal that has only the given rights."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from harness.cases.access_cases import Right
from harness.client import Client
from kafkapy.protocol.constants import AclPatternType, AclPermissionType
from kafkapy.protocol.message import Message
from kafkapy.security.acls import AclEntry, ResourcePattern
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.server.harness import running_broker, session_of

AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
ALICE: Final = "User:alice"
ADMIN: Final = "User:admin"


class Guarded:
    """The broker, a client that may do everything, and ``alice``, who may do nothing at first."""

    def __init__(self, broker: BrokerServer, alice: Client, admin: Client) -> None:
        self.broker = broker
        self.alice = alice
        self.admin = admin

    def allow(self, *rights: Right, permission: AclPermissionType = AclPermissionType.ALLOW) -> None:
        """Let these be the rights of alice, and no others."""
        access = self.broker.services.access
        assert access is not None
        authorizer = access.acls.authorizer
        for pattern in authorizer.patterns():
            authorizer.replace(pattern, ())
        for operation, kind, name in rights:
            pattern = ResourcePattern(kind, name, AclPatternType.LITERAL)
            entry = AclEntry(ALICE, "127.0.0.1", operation, permission)
            authorizer.replace(pattern, (*authorizer.entries(pattern), entry))


async def client_of(broker: BrokerServer, principal: str) -> Client:
    """A new connection that has been authenticated as ``principal``."""
    client = await Client.connect(broker)
    client.send(b"")
    while not any(each.session.peer_port == _port(client) for each in broker.listeners[0].connections):
        await broker.clock.sleep(1)
    session_of(broker, client).principal = principal
    return client


def _port(client: Client) -> int:
    port: int = client.writer.get_extra_info("sockname")[1]
    return port


@asynccontextmanager
async def guarded_broker(path: Path, **keys: Any) -> AsyncIterator[Guarded]:
    settings: dict[str, Any] = {"authorizer__class__name": AUTHORIZER, "super__users": ADMIN}
    settings |= {"transaction__partition__verification__enable": "false"} | keys
    async with running_broker(path, **settings) as broker:
        clients = [await client_of(broker, principal) for principal in (ALICE, ADMIN)]
        yield Guarded(broker, *clients)
        for client in clients:
            await client.close()


def plain(value: Any) -> Any:
    """A response as dicts and lists."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(each) for each in value]
    if not isinstance(value, Message):
        return value
    return {slot: plain(getattr(value, slot)) for slot in value.__slots__ if slot != "unknown_tagged_fields"}


def codes(value: Any) -> set[int]:
    """All error codes in a response, but 0."""
    found: set[int] = set()
    if isinstance(value, list):
        for each in value:
            found |= codes(each)
    if isinstance(value, Message):
        for slot in value.__slots__:
            content = getattr(value, slot)
            if slot.endswith("error_code"):
                found.add(content)
            found |= codes(content)
    return found - {0}
