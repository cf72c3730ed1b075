"""Forms: a connection's next request is compared with an earlier one as bytes, and not decoded.

Clients send nearly the same requests again and again: a heartbeat differs from the one before in its correlation id
only, a commit in its offsets too, a fetch in its offset and the epoch of its session, a produced batch in its partition
and its records. Decoding is a fifth to a third of the broker's work on such a request.

A form is a decode cache: it gives back the request that the bytes would be decoded to, and answers nothing. A handler's
module declares with its ``PATTERN`` which fields vary. The form knows the places of these fields, compares all other
bytes with those of the request that it was made of, and makes the request with the values that it finds. A request
that differs elsewhere is decoded.

A form is made of the second request that a connection sends of an API and version. If requests do not match, it is made
anew, from the eighth, sixteenth, … of them: a client whose requests vary elsewhere seldom causes the cost of a new
form.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar

from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.message import Message, Records
from kafkapy.protocol.primitives import encode
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.varying import around_integers, layout_of
from kafkapy.types import maker

API: Final = Struct(">i")
"""The first field of a request: API key and version as one number."""
CORRELATION_ID: Final = slice(4, 8)
LARGEST_FORM_SIZE: Final = 1024
"""Bytes of a request that a connection may keep, without its records."""
MOST_VALUES: Final = 256
"""Decoded values of such a request, as ``Reader.budget`` counts them, tagged fields too."""
MOST_FORMS: Final = 6
"""Forms that a connection may keep, one for each API and version; another one replaces the oldest."""
MOST_MISSES: Final = 4096
"""Requests that miss a form before it is made anew, at most."""

RECORDS: Final = "R"
"""The format of records, with their size, at the end of a request."""

M = TypeVar("M", bound=Message)

_header_of: Final = maker(RequestHeader)


class Pattern(NamedTuple, Generic[M]):
    """The fields of an API's requests that vary from one request of a connection to the next."""

    formats: Callable[[RequestContext, M], str | None]
    """Return the formats of these fields: letters of ``struct``, then perhaps ``RECORDS``. None: no form is of use."""
    vary: Callable[[M, tuple[int, ...], Records | None], M]
    """Return a request with other integers there, in the order in which they are written, and other records.

    The given request must stay as it is."""


class RequestForm:
    """Requests of one connection, of one API and version, that differ in some fields only."""

    __slots__ = ("_misses", "_patience", "_header", "_request", "_vary", "_layout", "_constant", "_has_records")

    def __init__(self) -> None:
        self._misses = 0
        self._patience = 2
        self._layout: Struct | None = None  # there is no request yet that it could be made of

    @property
    def is_made(self) -> bool:
        """Whether it may give requests back."""
        return self._layout is not None

    def obtain(self, frame: memoryview) -> tuple[RequestHeader, Message] | None:
        """Return what the frame would be decoded to; None if it has another form, or the form is not made yet."""
        layout = self._layout
        if layout is None:
            return None
        size, records = layout.size, None
        if self._has_records:
            if len(frame) < size:
                return None
            records = frame[size:]
            fields = layout.unpack_from(frame)
            integers = fields[3:-2:2]
            if fields[-2] != len(records):
                return None
        elif len(frame) == size:
            fields = layout.unpack(frame)
            integers = fields[3::2]
        else:
            return None
        if fields[::2] != self._constant:
            return None
        key, version, _, client_id, tagged_fields = self._header
        header = _header_of((key, version, fields[1], client_id, tagged_fields))
        return header, self._vary(self._request, integers, records)

    def learn(
        self, pattern: Pattern[M], context: RequestContext, request: M, frame: memoryview, body_place: int
    ) -> None:
        """Note that a request had to be decoded, whose body begins at ``body_place``; make the form of some of them."""
        formats = pattern.formats(context, request)
        if formats is None:
            return
        self._misses += 1
        if self._misses < self._patience:
            return
        self._misses, self._patience = 0, min(4 * self._patience, MOST_MISSES)
        self._layout = None
        integers = formats.removesuffix(RECORDS)
        self._has_records = integers != formats
        numbers, version = len(integers), context.header.api_version
        start = bytes(frame[:body_place])
        # null is written with a size of -1
        zeros = pattern.vary(request, (0,) * numbers, b"" if self._has_records else None)
        ones = pattern.vary(request, (-1,) * numbers, None)
        first = _with_correlation_id(0, start) + encode(zeros, version)
        other = _with_correlation_id(-1, start) + encode(ones, version)
        if len(first) > LARGEST_FORM_SIZE:
            return
        formats = f"i{integers}i" if self._has_records else f"i{integers}"
        constant = around_integers(first, other, formats)
        self._layout, self._constant = layout_of(constant, formats), tuple(constant)
        self._header, self._request, self._vary = context.header, zeros, pattern.vary
        if self.obtain(frame) is None:  # it is encoded in an unusual way
            self._layout = None


def _with_correlation_id(number: int, start: bytes) -> bytes:
    place = CORRELATION_ID
    return start[: place.start] + number.to_bytes(place.stop - place.start, signed=True) + start[place.stop :]


def form_for(forms: dict[int, RequestForm], api: int) -> RequestForm:
    """Return the connection's form of an API and version, as ``API`` reads them, which may not be made yet."""
    form = forms.get(api)
    if form is None:
        if len(forms) >= MOST_FORMS:
            del forms[next(iter(forms))]
        form = forms[api] = RequestForm()
    return form


def _same(request: Message, _: tuple[int, ...], __: Records | None) -> Message:
    return request


REPEATED: Final[Pattern[Message]] = Pattern(lambda _context, _request: "", _same)
"""Only the correlation id varies."""
