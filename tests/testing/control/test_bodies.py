import pytest

from kafkapy.observe.http.messages import HttpError, HttpRequest
from kafkapy.testing.control.bodies import read_body


def _request(method: str, kind: str | None, body: bytes) -> HttpRequest:
    return HttpRequest(method, "/faults", "", {} if kind is None else {"content-type": kind}, body)


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        (None, b"", 415),
        ("text/plain", b"{}", 415),
        ("application/json, text/plain", b"{}", 415),
        ("application/x-www-form-urlencoded", b"{}", 415),
        ("application/json", b"{", 400),
        ("application/json", b"[" * 60_000, 400),
        ("application/json", b"\xff", 400),
        ("application/json", b"[]", 400),
    ],
)
def test_a_post_needs_a_json_object(kind: str | None, body: bytes, status: int) -> None:
    with pytest.raises(HttpError) as refusal:
        read_body(_request("POST", kind, body))
    assert refusal.value.status == status


def test_a_type_may_have_parameters_and_a_body_may_be_missing() -> None:
    kind = "Application/JSON; charset=utf-8"
    assert read_body(_request("POST", kind, b'{"a": 1}')) == {"a": 1}
    assert read_body(_request("POST", kind, b"")) == {}
    assert read_body(_request("GET", None, b"")) == {}
