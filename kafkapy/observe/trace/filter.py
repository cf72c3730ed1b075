"""Which requests a trace shows: ``api=Produce,Fetch client=app* topic=orders``.

Terms are separated by spaces and must all match; the values of a term, separated by commas, are alternatives. In
clients and topics ``*`` matches any text and ``?`` any character. A request without a topic matches no topic term.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkapy.server.dispatch.message_places import names_in, names_topics
from kafkapy.server.handlers import served_api, served_apis
from kafkapy.text import nearest

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

TERMS: Final = ("api", "client", "topic")


class TraceFilterError(ValueError):
    """A filter that is not valid, or that no request could pass; the message says why."""


class TraceFilter(NamedTuple):
    """The terms that a request must match to be shown; None: any request."""

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
        return any(named.topic and _matches(named.topic, self.topics) for named in names_in(context, request))


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def parse_filter(text: str) -> TraceFilter:
    """The filter that ``text`` describes; raises ``TraceFilterError``."""
    terms: dict[str, tuple[str, ...]] = {}
    for term in text.split():
        name, equals, values = term.partition("=")
        if name not in TERMS or not equals:
            raise TraceFilterError(
                f"a trace can't be filtered by {term!r}{nearest(name, TERMS)}; write api=…, client=… or topic=…"
            )
        if name in terms:
            raise TraceFilterError(f"the trace filter has {name}= twice; write all values in one term, with commas")
        terms[name] = tuple(value for value in values.split(",") if value)
        if not terms[name]:
            raise TraceFilterError(f"the trace filter has {name}= without a value")
    apis = frozenset(_api_key(name) for name in terms["api"]) if "api" in terms else None
    if apis is not None and "topic" in terms and not any(names_topics(key) for key in apis):
        raise TraceFilterError(f"requests of {', '.join(terms['api'])} name no topics: no request would be shown")
    return TraceFilter(apis, terms.get("client"), terms.get("topic"))


def _api_key(name: str) -> int:
    key = served_api(name)
    if key is None:
        raise TraceFilterError(f"this broker serves no API {name!r}{nearest(name, served_apis())}")
    return key
