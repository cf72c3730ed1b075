"""Forms of requests: the next request of a connection is compared with an earlier one as bytes, and not decoded.

Clients send nearly the same requests again and again: a heartbeat differs from the one before in its correlation id
only, a commit in its offsets too, a fetch in its offset and the epoch of its session. Decoding is a fifth to a third of
the broker's work on such a request.

After a request was decoded and handled, the handler's ``remember`` may leave a form of it in ``Session.forms``, by the
request's first four bytes (API key and version). The dispatcher asks the form what a later request has in the places
that may vary (``match``), and lets it do what the handler does (``handle``). A request that does not match is decoded.
Where making a form costs more than decoding, a connection gets one when two requests in a row are about the same
thing; the form then stays until ``MOST_MISSES`` requests have not had it, so that a client whose requests vary pays
seldom for one (``note_repeat``).
Every form is tested against the decoded way with random requests: ``tests/server/handlers/test_repeated_*.py``.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.message import Message
from kafkapy.protocol.primitives import decode, encode
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.interception import Handler
from kafkapy.types import maker

if TYPE_CHECKING:
    from kafkapy.network.session import Session

API_AND_CORRELATION_ID: Final = Struct(">ii")
"""The first fields of a request: API key and version as one number, and the correlation id."""
CONTENT_PLACE: Final = API_AND_CORRELATION_ID.size
"""The position behind the correlation id, from which two requests may be equal."""
CORRELATION_ID: Final = slice(4, 8)
"""Where the correlation id is in a request, which begins with API key and version, and in a response with its size."""
LARGEST_FORM_SIZE: Final = 1024
"""Bytes of a request that a connection may keep; of a Produce request those before the records count.

A form may keep what is made of them too, some 10 kB at most."""
MOST_ELEMENTS: Final = 16
"""Topics, or partitions of a topic, of a request that a connection may keep: decoded, one takes a hundred bytes."""
MOST_VALUES: Final = 256
"""Decoded values of such a request, as ``Reader.budget`` counts them, tagged fields too."""
MOST_FORMS: Final = 6
"""Forms that a connection may keep, one for each API that has some; another one replaces the oldest."""
MOST_MISSES: Final = 8
"""Requests of a form's API and version that had another form, or none, before a new one may replace it."""

M = TypeVar("M", bound=Message)

_header_of: Final = maker(RequestHeader)


class RequestForm(Protocol):
    """Requests of one connection that differ little. It must not refer to the session, which refers to it."""

    api: tuple[int, int]
    """API key and version."""
    misses: int
    """See ``note_repeat``."""

    def match(self, frame: memoryview) -> Any:
        """What a request of this API and version has in the places that may vary; None if it has another form."""

    def handle(self, varying: Any, frame: memoryview, session: "Session") -> Any:
        """Do what the handler does with a request that has ``varying``; may return the response's frame too."""

    def header(self, frame: memoryview) -> RequestHeader:
        """The header of a request that has this form."""


class Form:
    """What forms have in common: the header of a request that was decoded."""

    __slots__ = ("api", "misses", "services", "_client_id", "_unknown_tagged_fields")

    def __init__(self, context: RequestContext) -> None:
        self.misses = 0
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


class IntegersForm(Form):
    """Requests that differ in the correlation id and in some integers: ``layout`` is that of ``layout_of``."""

    __slots__ = ("_layout", "_constant")

    def __init__(self, context: RequestContext, frame: memoryview, layout: Struct) -> None:
        super().__init__(context)
        self._layout = layout
        self._constant = layout.unpack(frame)[::2]

    def match(self, frame: memoryview) -> tuple[int, ...] | None:
        """See ``RequestForm``: the integers."""
        if len(frame) != self._layout.size:
            return None
        fields = self._layout.unpack(frame)
        return fields[1::2] if fields[::2] == self._constant else None


class _Seen:
    """What the last request was about, in the place of a form."""

    __slots__ = ("about",)

    def __init__(self, about: object) -> None:
        self.about = about

    def match(self, _: memoryview) -> None:
        """No request has this form."""


class _NoForm:
    """In the place of a form: requests are encoded in an unusual way, for which no form can be made."""

    __slots__ = ("misses",)

    def __init__(self) -> None:
        self.misses = 0

    def match(self, _: memoryview) -> None:
        """No request has this form."""


def note_repeat(about: object, frame: memoryview, session: "Session") -> bool:
    """Note what a decoded request is about; tell whether to make a form for requests like it.

    That is so if the one before was about the same, and there is no form, or one that has missed ``MOST_MISSES``.
    """
    known: RequestForm | _NoForm | _Seen | None = session.forms.get(API_AND_CORRELATION_ID.unpack_from(frame)[0])
    if isinstance(known, _Seen):
        if known.about == about:
            return True
    elif known is not None:
        known.misses += 1
        if known.misses < MOST_MISSES:
            return False
    keep(_Seen(about), frame, session)
    return False


def keep(form: RequestForm | _NoForm | _Seen, frame: memoryview, session: "Session") -> None:
    """Compare the next requests of this API and version with ``form``."""
    forms, key = session.forms, API_AND_CORRELATION_ID.unpack_from(frame)[0]
    if key not in forms and len(forms) >= MOST_FORMS:
        del forms[next(iter(forms))]
    forms[key] = form


def layout_of(frame: memoryview, request: M, version: int, letters: str, invert: Callable[[M], None]) -> Struct | None:
    """Return the ``Struct`` that unpacks ``frame`` into constant bytes and varying integers, by turns.

    None if ``encode`` would write other bytes than those of the frame. ``letters`` are the integers' formats in
    ``struct``. ``invert`` inverts all bits of these integers in a request: then all of their bytes differ, which shows
    where the integers are.
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
        size = Struct(f">{letter}").size
        form += f"{places[0] - end}s{letter}"
        end = places[0] + size
        del places[:size]
    assert not places, "all that was inverted is in the layout"
    return Struct(f"{form}{len(frame) - end}s")


def keep_integers(
    context: RequestContext,
    request: M,
    frame: memoryview,
    varying: tuple[str, Callable[[M], None]],
    make: Callable[[RequestContext, M, memoryview, Struct], RequestForm],
) -> None:
    """Let the connection's next requests of this API and version have the form that ``make`` makes with their layout.

    ``varying`` are the letters of the integers and the function that inverts them, see ``layout_of``.
    """
    layout = layout_of(frame, request, context.header.api_version, *varying)
    keep(_NoForm() if layout is None else make(context, request, frame, layout), frame, context.session)


def keep_same(context: RequestContext, request: Message, frame: memoryview, handle: Handler) -> None:
    """Let ``handle`` have ``request`` again when the connection repeats it; it must have few elements."""
    if len(frame) <= LARGEST_FORM_SIZE:
        keep(SameRequest(context, request, frame, handle), frame, context.session)
