"""UpdateFeatures v0: no features exist here, so none can be finalized at a version level.

Only the controller serves it.
Errors: NOT_CONTROLLER 41, INVALID_REQUEST 42 (no feature, or an unknown one, by feature).
"""

from kafkapy import kafka_texts
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafkapy.server.context import RequestContext
from kafkapy.turns import Steps


def handle(context: RequestContext, request: UpdateFeaturesRequest) -> Steps[UpdateFeaturesResponse]:
    """Refuse each feature."""
    if not context.services.controller.is_active:
        return UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=None)
    response = UpdateFeaturesResponse(error_message=None)
    answered: set[str] = set()
    for update in request.feature_updates:
        if update.feature not in answered:
            answered.add(update.feature)
            text = kafka_texts.UNSUPPORTED_FEATURE if update.feature else kafka_texts.EMPTY_FEATURE_NAME
            response.results.append(UpdatableFeatureResult(update.feature, ErrorCode.INVALID_REQUEST, text))
        yield
    return response
