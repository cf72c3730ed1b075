"""A loopback port that stays this test's own while its broker is stopped."""

import errno
import socket
import sys
from typing import Final

from kafkapy.testing.errors import BrokerStartError

HOST: Final = "127.0.0.1"


class ReservedPort:
    """A port (0: a free one) that nobody else on this machine gets before ``release``.

    Between a broker's stop and its next start others could be given the port; even a client that tries again and again
    to connect to it may be, and is then connected with itself. On Linux a second socket that is bound to the port but
    does not listen keeps it, and lets the broker listen there. Elsewhere the port is only looked up.
    """

    def __init__(self, port: int = 0) -> None:
        self._socket: socket.socket | None = socket.socket()
        try:
            if sys.platform == "linux":
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((HOST, port))
        except OSError as error:
            self._socket.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise BrokerStartError(
                f"port {port} of {HOST} can't be had ({error.strerror}); choose another one, or none for a free one"
            ) from error
        self.number: Final[int] = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self.release()

    def release(self) -> None:
        """Let others have it; twice does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
