"""Access control, as the stages and the handlers see it; ``server/access`` has it."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkapy.metadata.acls import AclStore
    from kafkapy.security.authorizer import Rights
    from kafkapy.server.dispatch.api_table import Api
    from kafkapy.server.dispatch.context import RequestContext
    from kafkapy.server.dispatch.result import Handler, Request, Result
    from kafkapy.turns import Steps


class AccessControl(Protocol):
    """Decides which part of a request is handled."""

    @property
    def acls(self) -> "AclStore":
        """The access control entries."""
        ...

    def rights(self, context: "RequestContext") -> "Rights | None":
        """Return what the client may do; None for the broker itself: everything."""
        ...

    def handle(
        self, api: "Api", handle: "Handler", context: "RequestContext", request: "Request"
    ) -> "Result | Steps[Result]":
        """Let ``handle`` answer the request, or the allowed part of it; a response has the errors of the rest."""
        ...
