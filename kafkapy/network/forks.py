"""Sockets that a forked child closes: its copies would keep ports and connections open after this process closed them.

A client would not see that its broker has stopped, and the port could not be listened on again as long as the child
runs. ``multiprocessing`` forks on Linux before Python 3.14. A program that replaces the child by another one needs none
of this: Python's sockets are not inherited then.
"""

import os
from typing import Final, Protocol
from weakref import WeakSet


class SocketOwner(Protocol):
    """Has sockets; weak references to it must be possible."""

    def close_inherited(self) -> None:
        """Close the sockets; called in the child, which has no event loop that watches them."""


_owners: Final[WeakSet[SocketOwner]] = WeakSet()


def close_in_children(owner: SocketOwner) -> None:
    """Close the sockets of ``owner`` in every child that is forked as long as ``owner`` exists."""
    _owners.add(owner)


def _close() -> None:
    for owner in tuple(_owners):
        owner.close_inherited()
    _owners.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close)
