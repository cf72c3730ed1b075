from typing import Any

import pytest

from kafkapy.network.session import Session
from kafkapy.observe.trace.filter import TraceFilter, TraceFilterError, parse_filter
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader
from kafkapy.server.dispatch.context import RequestContext
from tests.testing.requests import request_of


def _passes(text: str, key: int, client_id: str | None = "app-1", topic: str = "orders") -> bool:
    services: Any = None
    context = RequestContext(services, RequestHeader(key, 0, 1, client_id), Session.local("PLAINTEXT"))
    return parse_filter(text).passes(context, request_of(key, topic=topic))


def test_an_empty_filter_passes_every_request() -> None:
    assert parse_filter("") == TraceFilter()
    assert _passes("", ApiKey.HEARTBEAT)


def test_terms_must_all_hold_and_their_values_are_alternatives() -> None:
    assert _passes("api=Produce,heartbeat", ApiKey.HEARTBEAT)
    assert not _passes("api=Produce,Heartbeat", ApiKey.LIST_GROUPS)
    assert _passes("client=app-*,x", ApiKey.HEARTBEAT)
    assert not _passes("client=app", ApiKey.HEARTBEAT)
    assert not _passes("client=app*", ApiKey.HEARTBEAT, None)
    assert _passes("topic=pay*,ord*", ApiKey.PRODUCE)
    assert not _passes("topic=pay*", ApiKey.PRODUCE)
    assert not _passes("topic=*", ApiKey.HEARTBEAT)
    assert not _passes("api=PRODUCE client=x topic=orders", ApiKey.PRODUCE)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("num.partitions=4", "a trace can't be filtered by 'num.partitions=4'; write api=…, client=… or topic=…"),
        ("topics=a", "a trace can't be filtered by 'topics=a'; did you mean 'topic'?"),
        ("api", "a trace can't be filtered by 'api'"),
        ("api=", "the trace filter has api= without a value"),
        ("topic=a topic=b", "the trace filter has topic= twice"),
        ("api=Prodce", "this broker serves no API 'Prodce'; did you mean 'Produce'?"),
        ("api=Heartbeat topic=a", "requests of Heartbeat name no topics: no request would be shown"),
    ],
)
def test_an_invalid_filter_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(TraceFilterError) as refusal:
        parse_filter(text)
    assert str(refusal.value).startswith(sentence)
