import pytest

from kafkapy.observe.http.messages import HttpError, HttpRequest
from kafkapy.observe.http.origin import check_origin

PORT = 4711


def _request(**headers: str) -> HttpRequest:
    return HttpRequest("GET", "/", "", headers, b"")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:4711", "localhost:9", "[::1]:4711", "LOCALHOST"])
def test_requests_of_local_programs_are_accepted(host: str) -> None:
    check_origin(_request(host=host), PORT)
    check_origin(_request(host=host, origin=f"http://127.0.0.1:{PORT}"), PORT)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:4711"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "evil.example@127.0.0.1"},
        {"host": "evil.example:80@127.0.0.1:4711"},
        {"host": "127.0.0.1/evil.example"},
        {"host": "127.0.0.1?evil.example"},
        {"host": "127.0.0.1#evil.example"},
        {"host": "127.0.0.1:evil"},
        {"host": "127.0.0.1:"},
        {"host": "[127.0.0.1]x"},
        {"host": "127.0.0.1\x00"},
        {"host": ""},
        {"host": "[::1"},
        {"accept": "*/*"},
        {"host": "127.0.0.1", "origin": "http://evil.example"},
        {"host": "127.0.0.1", "origin": "http://localhost:3000"},
        {"host": "127.0.0.1", "origin": "null"},
        {"host": "127.0.0.1", "origin": f"http://127.0.0.1:{PORT}, http://evil.example"},
    ],
)
def test_requests_of_web_pages_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(HttpError) as refusal:
        check_origin(_request(**headers), PORT)
    assert refusal.value.status == 403
