"""How a session proves on each of its connections who it is: SASL, then schemes with a credential. No I/O."""

from collections.abc import Generator
from typing import Final, NamedTuple

from kazoo.protocol.serialization import SASL, Auth, int_struct

from kafkapy.security.errors import AuthenticationFailedError
from kafkapy.security.settings import ZooKeeperSecurity

XID_AUTH: Final = -4
_XID_SASL: Final = 1
"""SASL's requests come before all others, one at a time."""


class IdentityRefusedError(Exception):
    """The server does not accept an identity; the text says which one."""


class IdentityAnswer(NamedTuple):
    """The server's answer to one step."""

    error: int
    body: bytes


def identification(security: ZooKeeperSecurity) -> Generator[bytes, IdentityAnswer, None]:
    """Yield the payloads that present the session's identities, one after the other; is sent the server's answers.

    Raises IdentityRefusedError, and ValueError for an answer that can't be read.
    """
    if security.login is not None:
        tokens = security.login.tokens()
        token = next(tokens)
        try:
            while True:
                answer = yield _payload(_XID_SASL, SASL(token))
                if answer.error:
                    raise IdentityRefusedError(f"it does not accept the user and password of {security.login.source}")
                token = tokens.send(SASL.deserialize(answer.body, 0)[0] or b"")
        except StopIteration:
            pass
        except AuthenticationFailedError as error:
            raise IdentityRefusedError(str(error)) from None
    for scheme, credential in security.credentials:
        answer = yield _payload(XID_AUTH, Auth(0, scheme, credential))
        if answer.error:
            raise IdentityRefusedError("it does not accept the credentials of the session")


def _payload(xid: int, message: SASL | Auth) -> bytes:
    return bytes(int_struct.pack(xid) + int_struct.pack(message.type) + message.serialize())
