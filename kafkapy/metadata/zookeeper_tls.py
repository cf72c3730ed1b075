"""TLS of a connection to a ZooKeeper, over bytes in memory.

asyncio's TLS is for the event loop alone, and the heartbeat's thread has to encrypt a ping while the loop is in a long
step. This one has no I/O; the connection holds a lock around each call.
"""

import ssl
from contextlib import suppress

_READ_SIZE = 64 * 1024


class TlsChannel:
    """The client's side. All methods raise ``ssl.SSLError``; what they produce for the server is in ``to_send``."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        """``host`` is the name that the server's certificate must have, if the context checks it."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.is_open = False
        """Whether the handshake is done: before, nothing can be encrypted."""
        self.is_over = False
        """Whether the server sends nothing any more."""

    def start(self) -> None:
        """Begin the handshake."""
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()

    def decrypt(self, data: bytes) -> bytes:
        """Continue the handshake with the server's bytes, or decrypt them as far as they are complete."""
        self._incoming.write(data)
        plain = []
        with suppress(ssl.SSLWantReadError):
            if not self.is_open:
                self._tls.do_handshake()
                self.is_open = True
            while part := self._tls.read(_READ_SIZE):
                plain.append(part)
            self.is_over = True
        return b"".join(plain)

    def encrypt(self, data: bytes) -> None:
        """Encrypt bytes for the server."""
        self._tls.write(data)

    def to_send(self) -> bytes:
        """Return what has to be sent to the server now."""
        return self._outgoing.read()
