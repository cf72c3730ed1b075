"""The JSON objects in the bodies of requests, without values that Kafka's messages or a response can't hold."""

import json
import math
from http import HTTPStatus
from typing import Any, Final

from kafkapy.observe.http.messages import JSON, HttpError, HttpRequest

MOST_NUMBER_BITS: Final = 63
"""Of an integer in a body, without its sign."""


def read_body(request: HttpRequest) -> dict[str, Any]:
    """The body's JSON object, an empty one if there is no body. Raises ``HttpError``."""
    if request.method == "POST":
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"a POST needs the header Content-Type: {JSON}")
    if not request.body:
        return {}
    body = _read_json(request.body)
    if not isinstance(body, dict):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body must be a JSON object")
    return body


def _read_json(data: bytes) -> Any:
    try:
        value = json.loads(data, parse_int=_integer, parse_float=_float, parse_constant=_float)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate could not be sent back in a response
    except UnicodeEncodeError:
        raise HttpError(HTTPStatus.BAD_REQUEST, "a string in the body has half of a surrogate pair") from None
    except (ValueError, RecursionError):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is no JSON") from None
    return value


def _integer(text: str) -> int:
    value = int(text) if len(text) <= MOST_NUMBER_BITS else None
    if value is None or value.bit_length() > MOST_NUMBER_BITS:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the number {text[:20]}… in the body has more than 64 bits")
    return value


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the number {text[:20]} in the body is not finite")
    return value
