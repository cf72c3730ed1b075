"""Requests of the controller to its own broker: the same handlers, called without a socket."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.message import Message
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.interception import decoded_handler
from kafkapy.server.dispatch.routes import admit_and_handle, route_of

if TYPE_CHECKING:
    from kafkapy.network.session import Session
    from kafkapy.server.dispatch.api_table import ApiTable
    from kafkapy.server.dispatch.context import Services


class LocalRequests:
    """Serves requests that come as messages, and returns their responses as messages."""

    __slots__ = ("_apis", "_services", "_session")

    def __init__(self, apis: "ApiTable") -> None:
        self._apis = apis
        self._services: Services | None = None
        self._session: Session | None = None

    def serve(self, services: "Services", session: "Session") -> None:
        """Handle requests from now on."""
        self._services = services
        self._session = session

    def handle(self, request: Message, version: int) -> Message | Awaitable[Message]:
        """Answer a request as if it had come over the network; the handler must have an answer."""
        assert self._services is not None, "the broker is not composed yet"
        assert self._session is not None, "set together with the services"
        key: int = request.API_KEY  # type: ignore[attr-defined]  # requests have it, Message is the base of all
        api = self._apis.serving(key, version)
        assert api is not None, f"{ApiKey(key).name} {version} is not served"
        route = route_of(api, version)
        header = RequestHeader(key, version, 0, "controller")
        handle = decoded_handler(lambda context, message: admit_and_handle(route, context, message))
        context = RequestContext(self._services, header, self._session)
        return handle(context, request)  # type: ignore[return-value]  # never None, by the handlers' contract
