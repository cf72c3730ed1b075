"""DeleteTopics: deletes topics and their records.

Versions 0-6 (from 6 on requests may name topics by id, see ``server/dispatch/topic_ids.py``). Only the controller
serves it.
Errors: UNKNOWN_TOPIC_OR_PARTITION 3, REQUEST_TIMED_OUT 7, NOT_CONTROLLER 41, TOPIC_DELETION_DISABLED 73
(INVALID_REQUEST 42 below version 3: deletion is switched off), THROTTLING_QUOTA_EXCEEDED 89 (from version 5 on).
"""

from typing import TYPE_CHECKING, Final

from kafkapy.controller.topics import TopicResult
from kafkapy.metadata.errors import InvalidRequestError, TopicDeletionDisabledError
from kafkapy.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kafkapy.turns import OneByOne

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


FIRST_STRICT_VERSION: Final = 5
"""From this version on clients know THROTTLING_QUOTA_EXCEEDED."""


async def handle(context: "RequestContext", request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Pass the names to ``TopicAdmin`` and translate its results."""
    names = list(dict.fromkeys(request.topic_names))
    budget = context.budget(FIRST_STRICT_VERSION)
    results = await context.services.topic_admin.delete_topics(names, request.timeout_ms, budget=budget)
    version = context.header.api_version
    answers = {}
    async for result in OneByOne(results):
        answers[result.name] = _answer(result, version)
    return DeleteTopicsResponse(budget.throttle_ms, responses=[answers[name] for name in request.topic_names])


def _answer(result: TopicResult, version: int) -> DeletableTopicResult:
    if result.error is None:
        return DeletableTopicResult(name=result.name)
    code = result.error.error_code
    if version < 3 and isinstance(result.error, TopicDeletionDisabledError):
        code = InvalidRequestError.error_code
    return DeletableTopicResult(name=result.name, error_code=code, error_message=str(result.error) or None)
