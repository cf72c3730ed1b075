"""Whether the peer of a socket that is not read has closed its side.

The event loop learns of the end of a stream only by reading; a connection that waits for memory is not read.
"""

import select
import sys
from typing import Any, Final

from kafkapy.storage import portable

_END: Final = getattr(select, "POLLRDHUP", 0)
"""Linux tells that the end of the stream has arrived; 0 elsewhere."""
_fcntl: Any = portable.module_or_none("fcntl")
_termios: Any = portable.module_or_none("termios")


def unread_before_end(descriptor: int) -> int | None:
    """Return the unread bytes before the end of the stream; None if the end has not arrived, or can't be told."""
    if not _END or _fcntl is None or _termios is None:
        return None
    poll = select.poll()
    poll.register(descriptor, _END)
    if not poll.poll(0):
        return None
    unread = bytearray(4)
    _fcntl.ioctl(descriptor, _termios.FIONREAD, unread)
    return int.from_bytes(unread, sys.byteorder)
