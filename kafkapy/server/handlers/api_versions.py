"""ApiVersions v0-5: lists the APIs of the listener and their versions, and the features of broker and cluster.

Done: the list; an unknown version is answered in v0 with UNSUPPORTED_VERSION and the served versions of ApiVersions
(the dispatcher calls ``handle`` without a request then); client software names are checked as in KIP-511. From version
5 on a client may name the cluster and the broker that it expects (KIP-1242).
Features are listed from v3 on; v3 leaves out supported ones that can be off (level 0), which its clients refuse.
Errors: UNSUPPORTED_VERSION 35, INVALID_REQUEST 42, REBOOTSTRAP_REQUIRED 129 (it is another broker, or of another
cluster).
"""

import re
from functools import cache
from typing import Final

from kafkapy.metadata.features import SUPPORTED_FEATURES
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafkapy.server.dispatch.api_table import ApiTable
from kafkapy.server.dispatch.context import RequestContext

_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)
NO_BROKER: Final = -1

_FIRST_VERSION_OF_LEVEL_0: Final = 4
_NEEDED_BY_FEATURES: Final = (ApiKey.END_TXN, 5)
"""A listener that acts as a release without this version has none of the features."""


@cache
def _served(apis: ApiTable) -> list[ApiVersion]:
    return [ApiVersion(int(api.key), api.min_version, api.max_version) for api in apis]


def handle(context: RequestContext, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    """See the card."""
    served = _served(context.services.apis[context.session.listener])
    if request is None:
        own = [version for version in served if version.api_key == ApiKey.API_VERSIONS]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
    if context.header.api_version >= 3:
        names = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE_NAME.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        if error_code := _identity_error(context, request):
            return ApiVersionsResponse(error_code=error_code)
    response = ApiVersionsResponse(api_keys=served, finalized_features_epoch=context.services.features.epoch)
    if context.services.apis[context.session.listener].serving(*_NEEDED_BY_FEATURES):
        _add_features(context, response)
    return response


def _add_features(context: RequestContext, response: ApiVersionsResponse) -> None:
    response.supported_features = [
        SupportedFeatureKey(name, feature.min_level, feature.max_level)
        for name, feature in SUPPORTED_FEATURES.items()
        if feature.min_level or context.header.api_version >= _FIRST_VERSION_OF_LEVEL_0
    ]
    levels = context.services.features.levels
    response.finalized_features = [FinalizedFeatureKey(name, level, level) for name, level in levels.items()]


def _identity_error(context: RequestContext, request: ApiVersionsRequest) -> int:
    """Return the error of a request that expects another broker; one names both cluster and broker, or neither."""
    if request.cluster_id is None and request.node_id == NO_BROKER:
        return ErrorCode.NONE
    if not request.cluster_id or request.node_id == NO_BROKER:
        return ErrorCode.INVALID_REQUEST
    services = context.services
    own = services.metadata.image.cluster_id, services.config.broker_id
    return ErrorCode.NONE if (request.cluster_id, request.node_id) == own else ErrorCode.REBOOTSTRAP_REQUIRED
