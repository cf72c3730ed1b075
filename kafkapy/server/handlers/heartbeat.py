"""Heartbeat: keeps a member's session alive, and reports a rebalance of its group.

Versions 0-4. Answered at once: no future, no task.
Errors: COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, ILLEGAL_GENERATION 22, INVALID_GROUP_ID 24,
UNKNOWN_MEMBER_ID 25, REBALANCE_IN_PROGRESS 27, UNSUPPORTED_VERSION 35 (``server/handlers/shared/older_versions.py``),
FENCED_INSTANCE_ID 82; 0 while the group is loading.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.server.dispatch.encoding import ConstantTemplate, Filled
from kafkapy.server.dispatch.forms import REPEATED
from kafkapy.server.handlers.shared.older_versions import refuses_static_member

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

_KNOWN_ANSWERS: Final = 64

PATTERN: Final = REPEATED
"""A member repeats its heartbeat until the generation ends."""


def handle(context: "RequestContext", request: HeartbeatRequest) -> Filled:
    """Answer with the coordinator's error code."""
    instance_id = request.group_instance_id
    if instance_id is not None and refuses_static_member(context, instance_id):
        return _answer(context.header.api_version, ErrorCode.UNSUPPORTED_VERSION)
    error_code = context.services.group_coordinator.classic.heartbeat(
        request.group_id, request.generation_id, request.member_id, instance_id
    )
    return _answer(context.header.api_version, error_code)


@lru_cache(maxsize=_KNOWN_ANSWERS)
def _answer(version: int, error_code: int) -> Filled:
    return Filled(ConstantTemplate(HeartbeatResponse(error_code=error_code), version))
