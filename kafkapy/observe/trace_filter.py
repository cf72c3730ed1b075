"""Which requests a trace shows: ``api=Produce,Fetch client=app* topic=orders``.

Terms are separated by spaces and must all hold; the values of one, separated by commas, are alternatives. ``*`` and
``?`` in clients and topics stand for anything. A request without a topic is not shown where a topic is asked for.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkapy.server.message_places import named_in, names_topics
from kafkapy.server.names import served_api, served_apis
from kafkapy.text import nearest

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

TERMS: Final = ("api", "client", "topic")


class TraceFilterError(ValueError):
    """A filter that can't be understood, or that nothing could pass; the sentence says why."""


class TraceFilter(NamedTuple):
    """What must hold of a request to be shown; None: anything."""

    apis: frozenset[int] | None = None
    clients: tuple[str, ...] | None = None
    topics: tuple[str, ...] | None = None

    def passes(self, context: "RequestContext", request: Any) -> bool:
        """Whether the request is shown."""
        header = context.header
        if self.apis is not None and header.api_key not in self.apis:
            return False
        if self.clients is not None and not _matches(header.client_id or "", self.clients):
            return False
        if self.topics is None:
            return True
        return any(named.topic and _matches(named.topic, self.topics) for named in named_in(context, request))


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def parse_filter(text: str) -> TraceFilter:
    """The filter that ``text`` says; raises ``TraceFilterError``."""
    terms: dict[str, tuple[str, ...]] = {}
    for term in text.split():
        name, equals, values = term.partition("=")
        if name not in TERMS or not equals:
            raise TraceFilterError(
                f"a trace can't be filtered by {term!r}{nearest(name, TERMS)}; write api=…, client=… or topic=…"
            )
        if name in terms:
            raise TraceFilterError(f"the trace filter says {name}= twice; write the values in one, with commas")
        terms[name] = tuple(value for value in values.split(",") if value)
        if not terms[name]:
            raise TraceFilterError(f"the trace filter says {name}= and not which")
    apis = frozenset(_api_key(name) for name in terms["api"]) if "api" in terms else None
    if apis is not None and "topic" in terms and not any(names_topics(key) for key in apis):
        raise TraceFilterError(f"requests of {', '.join(terms['api'])} name no topics: nothing would be shown")
    return TraceFilter(apis, terms.get("client"), terms.get("topic"))


def _api_key(name: str) -> int:
    key = served_api(name)
    if key is None:
        raise TraceFilterError(f"this broker serves no API {name!r}{nearest(name, served_apis())}")
    return key
