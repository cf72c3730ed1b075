"""UpdateFeatures v0: no features exist here, so none can be finalized at a version level, and none deleted.

Only the controller serves it. A feature that is named several times is answered once, as it was named last.
Errors: NOT_CONTROLLER 41, INVALID_REQUEST 42 (by feature: each has a reason).
"""

from typing import Final

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps

_LOWEST_LEVEL: Final = 1
"""A version level below it deletes the feature, which has to be allowed."""


def handle(context: RequestContext, request: UpdateFeaturesRequest) -> Steps[UpdateFeaturesResponse]:
    """Refuse each feature."""
    if not context.services.controller.is_active:
        return UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=None)
    reasons: dict[str, str] = {}
    for update in request.feature_updates:
        reasons[update.feature] = _reason(update)
        yield
    response = UpdateFeaturesResponse(error_message=None)
    for feature, reason in reasons.items():
        response.results.append(UpdatableFeatureResult(feature, ErrorCode.INVALID_REQUEST, reason))
        yield
    return response


def _reason(update: FeatureUpdateKey) -> str:
    if not update.feature:
        return kafka_texts.EMPTY_FEATURE_NAME
    if update.max_version_level >= _LOWEST_LEVEL:
        return kafka_texts.UNSUPPORTED_FEATURE
    if update.allow_downgrade:
        return kafka_texts.NO_FEATURE_TO_DELETE
    return kafka_texts.feature_level_too_low(update.max_version_level)
