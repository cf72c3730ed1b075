"""DescribeClientQuotas v0: the broker enforces no client quotas, so there are none to describe.

Not done: quotas (``alter_client_quotas.py`` refuses them), and so the conditions of the request, which are not checked.
"""

from kafkapy.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kafkapy.server.context import RequestContext


def handle(_context: RequestContext, _request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Answer without entities."""
    return DescribeClientQuotasResponse(error_message=None, entries=[])
