"""A broker in this process, for tests of the server."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.client import Client
from kafkapy.clock import Clock, SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.network.loop import BrokerLoop
from kafkapy.network.session import Session
from kafkapy.protocol.headers import RequestHeader
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.server.dispatch.routes import route_of
from kafkapy.server.handlers import REGISTRY
from kafkapy.server.lifecycle.broker import NO_HOOKS, BrokerServer
from kafkapy.turns import finish

TIMEOUT_S = 20


def run(scenario: Awaitable[Any]) -> None:
    """Run a scenario with a deadline."""

    async def limited() -> None:
        await asyncio.wait_for(scenario, TIMEOUT_S)

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        runner.run(limited())


@asynccontextmanager
async def running_broker(
    path: Path,
    *,
    clock: Clock | None = None,
    in_memory_metadata: bool = True,
    serves_brokers: bool = False,
    hooks: Hooks = NO_HOOKS,
    **keys: str,
) -> AsyncIterator[BrokerServer]:
    """A broker on a free port; keys with ``__`` for each dot."""
    properties = {"broker.id": "0", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(path / "data")}
    properties |= {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}
    properties |= {name.replace("__", "."): value for name, value in keys.items()}
    config = BrokerConfig.from_properties(properties)
    broker = BrokerServer(
        config, clock, in_memory_metadata=in_memory_metadata, serves_brokers=serves_brokers, hooks=hooks
    )
    async with broker:
        yield broker


async def raw(client: Client, data: bytes) -> bytes:
    """Send a frame; return the answer without its correlation id, which must be the request's."""
    client.send(data)
    answer = await client.receive()
    assert answer[:4] == data[8:12]
    return answer[4:]


def session_of(broker: BrokerServer, client: Client) -> Session:
    """The session of a client's connection."""
    port = client.writer.get_extra_info("sockname")[1]
    connections = [connection for listener in broker.listeners for connection in listener.connections]
    (session,) = [each.session for each in connections if each.session.peer_port == port]
    return session


def has_form(broker: BrokerServer, client: Client, api_key: int, version: int) -> bool:
    """Whether the client's connection has a form of an API's requests."""
    form = session_of(broker, client).forms.get(api_key << 16 | version)
    return form is not None and form.is_made


def call(broker: BrokerServer, request: Any, version: int, *, client_id: str = "test") -> Any:
    """A handler's answer, called as the dispatcher calls it."""
    header = RequestHeader(request.API_KEY, version, 1, client_id)
    session = next(iter(broker.listeners[0].connections)).session
    handle = route_of(REGISTRY[request.API_KEY], version).handle
    response = handle(RequestContext(broker.services, header, session), request)
    return result_of(response)


def result_of(response: Any) -> Any:
    """The result of a handler, after its steps."""
    return finish(response) if isinstance(response, Generator) else response


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until the condition holds."""
    clock = SystemClock()
    while not condition():
        await clock.sleep(1)


def small_receive_buffer(port: int, size: int = 4096) -> socket.socket:
    """A connected blocking socket with a small receive buffer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    sock.connect(("127.0.0.1", port))
    return sock
