"""Forms of requests: the next request of a connection is compared with an earlier one as bytes, and not decoded.

Clients send nearly the same requests again and again: a heartbeat differs from the one before in its correlation id
only, a commit or a fetch in its offset too. Decoding is a fifth to a third of the broker's work on such a request.

After a request was decoded and handled, the handler's ``remember`` may leave a form of it in ``Session.forms``, by the
request's first four bytes (API key and version). The dispatcher asks the form what a later request has in the places
that may vary (``match``), and lets it do what the handler does (``handle``). A request that does not match is decoded.
Where making a form costs more than decoding, the second request about the same thing gets one (``note_repeat``).
Every form is tested against the decoded way with random requests: ``tests/server/handlers/test_repeated_*.py``.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.message import Message
from kafkapy.protocol.primitives import decode, encode
from kafkapy.server.context import RequestContext
from kafkapy.server.interception import Handler
from kafkapy.types import maker

if TYPE_CHECKING:
    from kafkapy.network.session import Session

API_AND_CORRELATION_ID: Final = Struct(">ii")
"""The first fields of a request: API key and version as one number, and the correlation id."""
CONTENT_PLACE: Final = API_AND_CORRELATION_ID.size
"""The position behind the correlation id, from which two requests may be equal."""
LARGEST_FORM_SIZE: Final = 1024
"""Bytes of a request that a connection may keep; of a Produce request those before the records count."""
MOST_ELEMENTS: Final = 16
"""Topics, or partitions of a topic, of a request that a connection may keep: decoded, one takes a hundred bytes."""
MOST_FORMS: Final = 4
"""Forms that a connection may keep; another one replaces the oldest."""

M = TypeVar("M", bound=Message)

_header_of: Final = maker(RequestHeader)


class RequestForm(Protocol):
    """Requests of one connection that differ little. It must not refer to the session, which refers to it."""

    api: tuple[int, int]
    """API key and version."""
    about: object
    """See ``note_repeat``."""

    def match(self, frame: memoryview) -> Any:
        """What a request of this API and version has in the places that may vary; None if it has another form."""

    def handle(self, varying: Any, frame: memoryview, session: "Session") -> Any:
        """Do what the handler does with a request that has ``varying``; may return the response's frame too."""

    def header(self, frame: memoryview) -> RequestHeader:
        """The header of a request that has this form."""


class Form:
    """What forms have in common: the header of a request that was decoded."""

    __slots__ = ("api", "about", "services", "_client_id", "_unknown_tagged_fields")

    def __init__(self, context: RequestContext, about: object = None) -> None:
        """``about``: see ``note_repeat``."""
        self.about = about
        key, version, _, self._client_id, self._unknown_tagged_fields = context.header
        self.api = key, version
        self.services = context.services

    def header(self, frame: memoryview) -> RequestHeader:
        """See ``RequestForm``."""
        correlation_id: int = API_AND_CORRELATION_ID.unpack_from(frame)[1]
        return _header_of((*self.api, correlation_id, self._client_id, self._unknown_tagged_fields))

    def context(self, frame: memoryview, session: "Session") -> RequestContext:
        """The context of a request that has this form."""
        return RequestContext(self.services, self.header(frame), session)


class SameRequest(Form):
    """Requests that differ in the correlation id only: the decoded one is handled again, so it must not be changed."""

    __slots__ = ("_request", "_content", "_handle")

    def __init__(self, context: RequestContext, request: Message, frame: memoryview, handle: Handler) -> None:
        super().__init__(context)
        self._request = request
        self._content = bytes(frame[CONTENT_PLACE:])
        self._handle = handle

    def match(self, frame: memoryview) -> bool | None:
        """See ``RequestForm``: nothing varies."""
        return True if frame[CONTENT_PLACE:] == self._content else None

    def handle(self, _: bool, frame: memoryview, session: "Session") -> Any:
        """See ``RequestForm``."""
        return self._handle(self.context(frame, session), self._request)


class _Seen:
    """What the last request was about, in the place of a form."""

    __slots__ = ("about",)

    def __init__(self, about: object) -> None:
        self.about = about

    def match(self, _: memoryview) -> None:
        """No request has this form."""


def note_repeat(about: object, frame: memoryview, session: "Session") -> bool:
    """Note what a request is about; tell whether the last one of its API and version was about the same."""
    known: RequestForm | _Seen | None = session.forms.get(API_AND_CORRELATION_ID.unpack_from(frame)[0])
    if known is not None and known.about == about:
        return True
    keep(_Seen(about), frame, session)
    return False


def keep(form: RequestForm | _Seen, frame: memoryview, session: "Session") -> None:
    """Compare the next requests of this API and version with ``form``."""
    forms, key = session.forms, API_AND_CORRELATION_ID.unpack_from(frame)[0]
    if key not in forms and len(forms) >= MOST_FORMS:
        del forms[next(iter(forms))]
    forms[key] = form


def layout_of(frame: memoryview, request: M, version: int, letters: str, invert: Callable[[M], None]) -> Struct | None:
    """What unpacks ``frame`` into constant bytes and varying integers by turns; None if it is encoded unusually.

    ``invert`` inverts all bits of the varying integers of a request, whose formats in ``struct`` are ``letters``: so
    each of them differs in all of its bytes, which shows where they are.
    """
    body = encode(request, version)
    begin = len(frame) - len(body)
    if frame[begin:] != body:
        return None
    other = decode(type(request), body, version)
    invert(other)
    inverted = encode(other, version)
    places = [begin + place for place, (one, two) in enumerate(zip(body, inverted, strict=True)) if one != two]
    form, end = f">{CONTENT_PLACE}x", CONTENT_PLACE
    for letter in letters:
        size = Struct(letter).size
        form += f"{places[0] - end}s{letter}"
        end = places[0] + size
        del places[:size]
    assert not places, "all that was inverted is in the layout"
    return Struct(f"{form}{len(frame) - end}s")


def keep_same(context: RequestContext, request: Message, frame: memoryview, handle: Handler) -> None:
    """Let ``handle`` have ``request`` again when the connection repeats it; it must have few elements."""
    if len(frame) <= LARGEST_FORM_SIZE:
        keep(SameRequest(context, request, frame, handle), frame, context.session)
