"""Forms: a connection's next request is compared with an earlier one as bytes, and not decoded.

Clients send nearly the same requests again and again: a heartbeat differs from the one before in its correlation id
only, a commit in its offsets too, a fetch in its offset and the epoch of its session, a produced batch in its partition
and its records. Decoding is a fifth to a third of the broker's work on such a request.

A form is a decode cache: it gives back the request that the bytes would be decoded to, and answers nothing. A handler's
module declares with its ``PATTERN`` which fields vary. The form knows the places of these fields, compares all other
bytes with those of the request that it was made of, and makes the request with the values that it finds. A request
that differs elsewhere is decoded.

A form is made of the second request that a connection sends of an API and version. It is made again after 8 requests
that do not match it, then after 32, 128, … of them: making a form takes longer than decoding, and a client whose
requests differ in other fields causes it seldom.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar

from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.message import Message, Records
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.primitives import encode
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.varying import around_integers, layout_of

FIRST_FIELDS: Final = Struct(">ii")
"""The first fields of a request: API key and version as one number, and the correlation id."""
LARGEST_FORM_SIZE: Final = 1024
"""Bytes of a request that a connection may keep, without its records."""
MOST_VALUES: Final = 256
"""Decoded values of such a request, as ``Reader.budget`` counts them, tagged fields too."""
MOST_FORMS: Final = 6
"""Forms that a connection may keep, one for each API and version; another one replaces the oldest."""
MOST_MISSES: Final = 4096
"""The most requests that do not match a form before it is made again."""

LAST_SHIFT: Final = 28
"""The place of the last bits of an unsigned varint of 32 bits."""
RECORDS: Final = "R"
"""The format of records, with their size, behind which a request has no other field but tagged ones."""

M = TypeVar("M", bound=Message)

NOT_MADE: Final = -1
"""The size of a form that is not made."""

Vary = Callable[[tuple[int, ...], Records | None], M]
"""Returns a request with these integers, in the order in which they are written, and these records."""


class Pattern(NamedTuple, Generic[M]):
    """The fields of an API's requests that vary from one request of a connection to the next."""

    formats: Callable[[RequestContext, M], str | None]
    """Return the formats of these fields: letters of ``struct``, then perhaps ``RECORDS``. None: no form is of use."""
    varying: Callable[[M], Vary[M]]
    """Return a function that returns requests like the given one, which must stay as it is."""


class RequestForm:
    """Requests of one connection, of one API and version, that differ in some fields only."""

    __slots__ = (
        "header", "_misses", "_patience", "_vary", "_unpack", "_size", "_constant", "_has_records", "_is_compact",
        "_end",
    )  # fmt: skip

    header: RequestHeader
    """The header of its requests, but for the correlation id; a form that is not made has none."""

    def __init__(self) -> None:
        self._misses = 0
        self._patience = 2
        self._unmake()

    @property
    def is_made(self) -> bool:
        """Whether it may give requests back."""
        return self._size != NOT_MADE

    def obtain(self, frame: memoryview) -> Message | None:
        """Return the request that the frame would be decoded to; None if it has another form, or none is made yet."""
        size, records = self._size, None
        if self._has_records:
            if len(frame) < size:
                return None
            fields = self._unpack(frame, FIRST_FIELDS.size)
            records = self._records_in(frame, fields[-1])
            if records is None:
                return None
            integers = fields[1:-1:2]
        elif len(frame) == size:
            fields = self._unpack(frame, FIRST_FIELDS.size)
            integers = fields[1::2]
        else:
            return None
        if fields[::2] != self._constant:
            return None
        return self._vary(integers, records)

    def _records_in(self, frame: memoryview, announced: int) -> memoryview | None:
        """Return the records; None if the frame has another end, or null. ``announced`` is their size as unpacked."""
        place = self._size
        if self._is_compact:  # it is the first byte of an unsigned varint: 7 bits, and a bit if more follow
            byte, announced, shift = announced, announced & 0x7F, 7
            while byte & 0x80:
                if place == len(frame) or shift > LAST_SHIFT:
                    return None
                byte = frame[place]
                announced |= (byte & 0x7F) << shift
                place, shift = place + 1, shift + 7
            announced -= 1
        end = place + announced
        if announced < 0 or end + len(self._end) != len(frame) or frame[end:] != self._end:
            return None
        return frame[place:end]

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
        self._make(pattern.varying(request), formats, context.header, bytes(frame[:body_place]))
        if self.obtain(frame) is None:  # it is encoded in an unusual way
            self._unmake()

    def _unmake(self) -> None:
        self._has_records, self._size = False, NOT_MADE  # no frame has this size

    def _make(self, vary: Vary[M], formats: str, header: RequestHeader, start: bytes) -> None:
        """Find the places of the fields that vary in a request that begins with ``start``."""
        self._unmake()
        integers = formats.removesuffix(RECORDS)
        has_records = integers != formats
        numbers = len(integers)
        # null is written with a size of -1
        zeros = encode(vary((0,) * numbers, b"" if has_records else None), header.api_version)
        ones = encode(vary((-1,) * numbers, None), header.api_version)
        if len(start) + len(zeros) > LARGEST_FORM_SIZE:
            return
        start = start[FIRST_FIELDS.size :]
        flexible_from = request_class(header.api_key).FLEXIBLE_FROM  # type: ignore[attr-defined]  # requests have it
        self._is_compact = header.api_version >= flexible_from
        size_format = "B" if self._is_compact else "i"
        formats = f"{integers}{size_format}" if has_records else integers
        constant = around_integers(start + zeros, start + ones, formats)
        if has_records:
            self._end = constant.pop()
        layout = layout_of(constant, formats)
        self.header, self._vary, self._has_records = header, vary, has_records
        self._constant, self._unpack, self._size = tuple(constant), layout.unpack_from, FIRST_FIELDS.size + layout.size


def form_for(forms: dict[int, RequestForm], api: int) -> RequestForm:
    """Return the connection's form of an API and version, as ``FIRST_FIELDS`` has them, which may not be made yet."""
    form = forms.get(api)
    if form is None:
        if len(forms) >= MOST_FORMS:
            del forms[next(iter(forms))]
        form = forms[api] = RequestForm()
    return form


def _repeating(request: M) -> Vary[M]:
    return lambda _integers, _records: request


REPEATED: Final[Pattern[Message]] = Pattern(lambda _context, _request: "", _repeating)
"""Only the correlation id varies."""
