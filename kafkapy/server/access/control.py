"""AclAccessControl: the stage between a decoded request and its handler, which asks the API's rule."""

from kafkapy.clock import Clock
from kafkapy.metadata.acls import AclStore
from kafkapy.metrics import PeerLines
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages import APIS
from kafkapy.security.authorizer import Rights, java_address
from kafkapy.server.access.table import RULES
from kafkapy.server.dispatch.api_table import Api
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.result import Handler, Request, Result
from kafkapy.server.dispatch.verdicts import serve
from kafkapy.turns import Steps


class AclAccessControl:
    """Applies the rules with the decisions of an ``AclStore``'s authorizer."""

    __slots__ = ("acls", "_clock", "_lines")

    def __init__(self, acls: AclStore, clock: Clock, lines: PeerLines) -> None:
        self.acls: AclStore = acls
        self._clock = clock
        self._lines = lines

    def rights(self, context: RequestContext) -> Rights | None:
        """See ``AccessControl``."""
        session = context.session
        if session.is_local:
            return None
        api = APIS[context.header.api_key][1]
        return Rights(self.acls.authorizer, session.principal, java_address(session.peer_host), api, self._may_log)

    def _may_log(self) -> bool:
        return self._lines.may_log(self._clock.monotonic_s())

    def handle(self, api: Api, handle: Handler, context: RequestContext, request: Request) -> Result | Steps[Result]:
        """See ``AccessControl``."""
        rights = self.rights(context)
        if rights is None:
            return handle(context, request)
        rule = RULES.get(api.key)
        if rule is None:
            _check_super_user(rights, api)
            return handle(context, request)
        return serve(rule(rights, context, request), handle, context, request)


def _check_super_user(rights: Rights, api: Api) -> None:
    if not rights.is_super_user:
        raise RefusedError(f"{ApiKey(api.key).name} has no rule of access control: it is for super users alone")
