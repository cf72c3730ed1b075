"""A loopback port that stays reserved for a test while its broker is stopped."""

import errno
import socket
import sys
from typing import Final

from kafkapy.network.forks import close_in_children
from kafkapy.testing.errors import BrokerStartError

HOST: Final = "127.0.0.1"


class ReservedPort:
    """A port (0: a free one) that no other program on this machine gets before ``release``.

    Between a broker's stop and its next start the system could give the port to another socket, even to a client that
    repeatedly connects to it and is then connected to itself. On Linux a second socket that is bound to the port but
    does not listen reserves it, and the broker can listen there. On other systems the port is only looked up.
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
                f"port {port} of {HOST} is not available ({error.strerror}); choose another one, or 0 for a free one"
            ) from error
        self.number: Final[int] = self._socket.getsockname()[1]
        close_in_children(self)
        if sys.platform != "linux":
            self.release()

    def release(self) -> None:
        """Stop reserving the port; may be called repeatedly."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close_inherited(self) -> None:
        """See ``forks.SocketOwner``."""
        self.release()
