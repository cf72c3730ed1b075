"""UpdateFeatures v0-2: finalizes a level of each named feature, of all or of none.

Only the controller serves it. A feature that is named several times gets the level that it is named with last. With
``validate_only`` nothing is written. In a cluster on ZooKeeper no level can be finalized: its brokers may be of 2.7.
A v0 request that names only features which do not exist is answered as by Apache Kafka 2.7, each feature for itself.
Errors: NOT_CONTROLLER 41, INVALID_REQUEST 42 (v0, by feature), INVALID_UPDATE_VERSION 95; REQUEST_TIMED_OUT 7 and
KAFKA_STORAGE_ERROR 56 if the metadata store does not answer, or can't be written.
"""

from collections.abc import Awaitable, Mapping
from typing import Final

from kafkapy import kafka_texts
from kafkapy.errors import BrokerError
from kafkapy.metadata.features import SUPPORTED_FEATURES
from kafkapy.metadata.store import BadVersionError, in_time
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
"""A version level below it deletes the feature, which v0 has to allow."""
_LAST_VERSION_WITH_RESULTS: Final = 1
_UPGRADE: Final = 1
_DOWNGRADES: Final = (2, 3)
"""Upgrade types: safe and unsafe downgrade; every level of the present features can be left safely."""

Response = UpdateFeaturesResponse | Awaitable[UpdateFeaturesResponse]


def handle(context: RequestContext, request: UpdateFeaturesRequest) -> Steps[Response]:
    """See the card."""
    if not context.services.controller.is_active:
        return UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=None)
    updates: dict[str, FeatureUpdateKey] = {}
    for update in request.feature_updates:
        updates[update.feature] = update
        yield
    if context.header.api_version == 0 and not updates.keys() & SUPPORTED_FEATURES.keys():
        return (yield from _of_unknown_features(updates))
    for update in updates.values():
        reason = _reason(context, update)
        if reason is not None:
            text = kafka_texts.feature_not_updated(update.feature, update.max_version_level, reason)
            return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=text)
        yield
    if request.validate_only:
        return _done(context, request)
    return _finalize(context, request, {name: update.max_version_level for name, update in updates.items()})


def _reason(context: RequestContext, update: FeatureUpdateKey) -> str | None:
    """Why the feature can't get the level, None if it can."""
    if update.upgrade_type not in (_UPGRADE, *_DOWNGRADES):
        return kafka_texts.UNKNOWN_UPGRADE_TYPE
    level = update.max_version_level
    if level < 0:
        return kafka_texts.NEGATIVE_FEATURE_LEVEL
    config = context.services.config
    node = f"Local controller {config.broker_id}"
    feature = SUPPORTED_FEATURES.get(update.feature)
    if feature is None or not config.embedded_store:
        return kafka_texts.feature_not_supported(node)
    if not feature.min_level <= level <= feature.max_level:
        return kafka_texts.feature_level_not_supported(node, *feature)
    present = context.services.features.levels.get(update.feature, 0)
    if level < present and update.upgrade_type == _UPGRADE:
        return kafka_texts.NOT_A_FEATURE_UPGRADE
    if level > present and update.upgrade_type != _UPGRADE:
        return kafka_texts.NOT_A_FEATURE_DOWNGRADE
    return None


async def _finalize(
    context: RequestContext, request: UpdateFeaturesRequest, levels: Mapping[str, int]
) -> UpdateFeaturesResponse:
    services = context.services
    features = services.features
    try:
        finalizing = features.finalize({**features.levels, **levels})
        await in_time(services.store, services.clock, max(request.timeout_ms, 0), finalizing)
    except BadVersionError:
        return UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=None)
    except BrokerError as error:
        return UpdateFeaturesResponse(error_code=error.error_code, error_message=str(error))
    return _done(context, request)


def _done(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """The response to a request that was carried out; below v2 it has a result for each feature that was named."""
    response = UpdateFeaturesResponse(error_message=None)
    if context.header.api_version <= _LAST_VERSION_WITH_RESULTS:
        response.results = [UpdatableFeatureResult(update.feature, 0, "NONE") for update in request.feature_updates]
    return response


def _of_unknown_features(updates: Mapping[str, FeatureUpdateKey]) -> Steps[UpdateFeaturesResponse]:
    response = UpdateFeaturesResponse(error_message=None)
    for feature, update in updates.items():
        reason = _reason_of_2_7(update)
        response.results.append(UpdatableFeatureResult(feature, ErrorCode.INVALID_REQUEST, reason))
        yield
    return response


def _reason_of_2_7(update: FeatureUpdateKey) -> str:
    if not update.feature:
        return kafka_texts.EMPTY_FEATURE_NAME
    if update.max_version_level >= _LOWEST_LEVEL:
        return kafka_texts.UNSUPPORTED_FEATURE
    if update.allow_downgrade:
        return kafka_texts.NO_FEATURE_TO_DELETE
    return kafka_texts.feature_level_too_low(update.max_version_level)
