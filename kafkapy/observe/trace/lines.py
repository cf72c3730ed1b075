"""One line for a request, one for its answer: coloured text for people, JSON for machines."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kafkapy.observe.trace.summary import has_error
from kafkapy.protocol.messages import APIS
from kafkapy.text import printable, printable_json, shortened

LONGEST_LINE: Final = 2_000
"""Characters of a line for people; in a line for machines, of a client id or the reason for no answer."""
LONGEST_CLIENT_ID: Final = 200
"""Characters of a client id in a line for people."""

REQUEST: Final = "request"
RESPONSE: Final = "response"
NO_ANSWER: Final = "no answer"

_SIGNS: Final = {REQUEST: "→", RESPONSE: "←", NO_ANSWER: "×"}
_CYAN, _GREEN, _RED, _YELLOW, _DIM, _PLAIN = (f"\x1b[{code}m" for code in (36, 32, 31, 33, 2, 0))


class Event(NamedTuple):
    """A line's contents. ``duration_ms`` is None for a request; ``body`` is a summary, or why there is no answer."""

    kind: str
    time_ms: int
    peer: str
    client_id: str | None
    api_key: int
    version: int
    correlation_id: int
    size: int
    duration_ms: float | None
    body: Mapping[str, Any] | str


Format = Callable[[Event], str]


def as_json(event: Event) -> str:
    """The event as one JSON object."""
    told = event._asdict()
    told["api"] = APIS[told.pop("api_key")][1]
    told["bytes"] = told.pop("size")
    if event.duration_ms is None:
        del told["duration_ms"]
    if event.client_id is not None:
        told["client_id"] = shortened(event.client_id, LONGEST_LINE)
    if isinstance(event.body, str):
        told["reason"] = shortened(told.pop("body"), LONGEST_LINE)
    return printable_json(told, default=str)


def as_text(event: Event) -> str:
    """The event as a line without colours."""
    return _text(event, ("", "", ""))


def as_colored_text(event: Event) -> str:
    """The event as a line with the colours of a terminal: an error red, no answer yellow."""
    if event.kind == REQUEST:
        color = _CYAN
    elif event.kind == NO_ANSWER:
        color = _YELLOW
    else:
        color = _RED if has_error(event.body) else _GREEN
    return _text(event, (color, _DIM, _PLAIN))


def _text(event: Event, colors: tuple[str, str, str]) -> str:
    color, dim, plain = colors
    time = datetime.fromtimestamp(event.time_ms / 1000, UTC).astimezone()
    took = "" if event.duration_ms is None else f" {event.duration_ms:.1f} ms"
    body = printable(event.body if isinstance(event.body, str) else _fields(event.body))
    if len(body) > LONGEST_LINE:
        body = f"{body[:LONGEST_LINE]}…"
    client_id = _quoted(shortened(event.client_id or "-", LONGEST_CLIENT_ID))
    return (
        f"{dim}{time:%H:%M:%S}.{event.time_ms % 1000:03d} {event.peer}{plain} {client_id}"
        f" {color}{_SIGNS[event.kind]} {APIS[event.api_key][1]} v{event.version}{plain}"
        f" {dim}#{event.correlation_id} {event.size:,} B{took}{plain} {body}"
    ).rstrip()


def _fields(shown: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in shown.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{_fields(value)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    """Return ``text``, in quotes and escaped as in JSON if it is ambiguous without."""
    if text.isprintable() and text and not set(text) & set(' "[]{}=,'):
        return text
    if text.startswith(("<", "…", "[hidden")) and text.isprintable():
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
