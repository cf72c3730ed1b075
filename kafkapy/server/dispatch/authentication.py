"""Admission on a listener with SASL: requests before the client has authenticated, and tokens without a header."""

import asyncio
import struct
from typing import TYPE_CHECKING, Any, Final

from kafkapy.network.dispatcher import Waiting
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.writer import Part

if TYPE_CHECKING:
    from kafkapy.security.authentication import Authentication

_PREFIX: Final = struct.Struct(">i")
_KEY_SHIFT: Final = 16


def admit(authentication: "Authentication", api: int, frame: memoryview) -> list[Part] | Waiting[Any] | None:
    """Return None for a request that is to be served, and the frame of the answer to a token.

    ``api`` is the API key and version as one number. Raises RefusedError: the connection ends. After a token that is
    refused it ends later: see ``connection.failed.authentication.delay.ms``.
    """
    if not authentication.takes_tokens:
        problem = authentication.problem_with(api >> _KEY_SHIFT)
        if problem:
            raise RefusedError(problem)
        return None
    from kafkapy.security.authentication import FRAME_SIZE
    from kafkapy.security.errors import AuthenticationFailedError

    try:
        answer = authentication.step(bytes(frame[: FRAME_SIZE + 1]))  # a longer one is refused: it needs no copy
    except AuthenticationFailedError as error:
        return _refused_later(authentication, str(error))
    return [bytearray(_PREFIX.pack(len(answer)) + answer)]


def _refused_later(authentication: "Authentication", problem: str) -> Waiting[Any]:
    """The connection ends after the delay, so that a client with a wrong password does not try it all the time."""
    refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not refused.done():
            refused.set_exception(RefusedError(problem))

    authentication.after_failure_delay(end)
    return Waiting(None, RequestHeader(ApiKey.SASL_AUTHENTICATE, 0, 0, None), refused)
