from pathlib import Path
from typing import Any

from harness.client import Client
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.dispatcher import Dispatcher
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.server.dispatch.result import Handle, Result
from kafkapy.server.dispatch.routes import route_of
from kafkapy.server.handlers import CLIENT_APIS, REGISTRY
from tests.server.harness import run, running_broker


class Counting:
    """Answers every second request itself."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def start(self, services: Services) -> None:
        assert services.log_manager is not None
        self.told.append("start")

    def handle(self, context: RequestContext, request: Any, handle: Handle) -> Result:
        self.told.append(type(request).__name__)
        return ListGroupsResponse(error_code=42) if len(self.told) % 2 else handle(context, request)

    def stop(self) -> None:
        self.told.append("stop")


def test_an_interceptor_answers_itself_or_calls_the_handler(tmp_path: Path) -> None:
    async def scenario() -> None:
        counting = Counting()
        async with running_broker(tmp_path, hooks=Hooks(counting)) as broker:
            client = await Client.connect(broker)
            codes = [(await client.ask(ListGroupsRequest(), 2)).error_code for _ in range(4)]
            assert codes == [0, 42, 0, 42]
            await client.close()
        assert counting.told == ["start", *["ListGroupsRequest"] * 4, "stop"]

    run(scenario())


def test_without_hooks_the_handlers_are_called_as_they_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            route = route_of(REGISTRY[ApiKey.PRODUCE], 8)
            assert Dispatcher(broker.services, CLIENT_APIS)._make_route(route) is route

    run(scenario())
