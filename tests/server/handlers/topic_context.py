"""A handler's context over one fake broker of ``tests.controller.harness``."""

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

from kafkapy.metrics import Metrics
from kafkapy.protocol.message import Message
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import in_turns
from tests.controller.harness import FakeBroker


def context_of(broker: FakeBroker, version: int, listener: str = "PLAINTEXT") -> RequestContext:
    node = broker.node
    services = SimpleNamespace(
        quotas=None,
        access=None,
        config=broker.config,
        clock=broker.cluster.clock,
        metadata=node.cache,
        fence=node.fence,
        controller=node.controller,
        topic_admin=node.topic_admin,
        config_admin=node.config_admin,
        metrics=Metrics(),
    )
    session = SimpleNamespace(
        peer_host="127.0.0.1", listener=listener, local_address=("127.0.0.1", 9092), principal="User:ANONYMOUS"
    )
    header = SimpleNamespace(api_key=0, api_version=version, correlation_id=1, client_id="test")
    return RequestContext(cast(Any, services), cast(Any, header), session)


async def ask(module: Any, broker: FakeBroker, request: Message, version: int) -> Any:
    """The handler's response, whether it returns a message, an awaitable or steps."""
    response = module.handle(context_of(broker, version), request)
    if isinstance(response, Generator):
        response = await in_turns(response)
    return response if isinstance(response, Message) else await response
