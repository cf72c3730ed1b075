"""Admission on a listener with SASL: requests before the client has authenticated, and tokens without a header."""

import struct
from typing import TYPE_CHECKING, Final

from kafkapy.network.errors import RefusedError
from kafkapy.protocol.writer import Part

if TYPE_CHECKING:
    from kafkapy.security.authentication import Authentication

_PREFIX: Final = struct.Struct(">i")
_KEY_SHIFT: Final = 16


def admit(authentication: "Authentication", api: int, frame: memoryview) -> list[Part] | None:
    """Return None for a request that is to be served, and the frame of the answer to a token.

    ``api`` is the API key and version as one number. Raises RefusedError: the connection ends.
    """
    if not authentication.takes_tokens:
        problem = authentication.problem_with(api >> _KEY_SHIFT)
        if problem:
            raise RefusedError(problem)
        return None
    from kafkapy.security.errors import AuthenticationFailedError

    try:
        answer = authentication.step(bytes(frame))
    except AuthenticationFailedError as error:
        raise RefusedError(str(error)) from None
    return [bytearray(_PREFIX.pack(len(answer)) + answer)]
