"""The control port's description of itself: OpenAPI for programs, a page for people."""

from collections.abc import Mapping
from html import escape
from typing import Any, Final

import kafkapy
from kafkapy.testing.control.routes import Controllable, ControlRoute

TITLE: Final = "kafkapy control port"
_ERROR: Final = {"type": "object", "properties": {"error": {"type": "string"}}}
_SCHEMAS: Final[Mapping[str, Any]] = {
    "nth": {"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
    "groups": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
}
"""The schemas of fields that are more than a type, by name."""


def _text(of: Controllable) -> str:
    return f"{of.title}, for tests in any language."


def openapi(of: Controllable) -> dict[str, Any]:
    """The description in OpenAPI 3.0."""
    paths: dict[str, dict[str, Any]] = {}
    for route in of.routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.0.3",
        "info": {"title": TITLE, "version": kafkapy.__version__, "description": _text(of)},
        "paths": paths,
    }


def _operation(route: ControlRoute[Any]) -> dict[str, Any]:
    done = "201" if route.method == "POST" and route.path.endswith("/faults") else "200"
    operation: dict[str, Any] = {
        "summary": route.does,
        "responses": {
            done: {"description": "done", "content": _content({"type": "object"})},
            "4XX": {"description": "refused, with the reason in one sentence", "content": _content(_ERROR)},
        },
    }
    if route.parameters:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "integer"}} for name in route.parameters
        ]
    if route.method == "POST":
        properties = {
            name: {"description": meaning, **_SCHEMAS.get(name, {"type": kind})}
            for name, kind, _, meaning in route.fields
        }
        schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        needed = [name for name, _, is_needed, _ in route.fields if is_needed]
        if needed:
            schema["required"] = needed
        operation["requestBody"] = {"required": bool(needed), "content": _content(schema)}
    return operation


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def page(of: Controllable, address: str) -> str:
    """The description as an HTML page; ``address`` is the control port's ``host:port``."""
    rows = "".join(
        f"<tr><td><code>{route.method} {escape(route.path)}</code></td>"
        f"<td>{escape(route.does)}{_fields(route)}</td></tr>"
        for route in of.routes
    )
    path, _, body = of.example.partition(" ")
    example = f"curl -X POST http://{address}{path} -H 'Content-Type: application/json' \\\n     -d '{body}'"
    style = (
        "body{font:16px sans-serif;max-width:60em;margin:2em auto}td{padding:.3em 1em .3em 0;vertical-align:top}"
        "dl{margin:.3em 0 0 1em;font-size:90%}dt{float:left;clear:left;min-width:9em}pre{background:#eee;padding:1em}"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{TITLE}</title>'
        f"<style>{style}</style></head>"
        f"<body><h1>{TITLE}</h1><p>{_text(of)} Bodies and answers are JSON; refused requests are answered with 4xx and "
        f'<code>{{"error": "…"}}</code>. <a href="/openapi.json">OpenAPI</a></p><pre>{escape(example)}</pre>'
        f"<table>{rows}</table></body></html>"
    )


def _fields(route: ControlRoute[Any]) -> str:
    if not route.fields:
        return ""
    items = (f"<dt><code>{name}</code></dt><dd>{escape(text)}</dd>" for name, _, _, text in route.fields)
    return f"<dl>{''.join(items)}</dl>"
