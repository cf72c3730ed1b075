"""Detect that the parent process has ended, normally or not.

On Linux a descriptor of the parent becomes readable at once. Other POSIX systems give an orphan another parent, which
is checked every quarter of a second. Windows has neither: there the end of the standard input counts as the parent's
end, so the parent has to give the broker a pipe. (``PR_SET_PDEATHSIG`` would report the end of the *thread* that
started this process, which in a Java or Python test runner may end before its process.)
"""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

LOOK_EVERY_S: Final = 0.25
ORPHANS_ARE_ADOPTED: Final = os.name == "posix"
"""Whether ``getppid`` changes when the parent ends."""

OnParentEnd = Callable[[], object]
"""Called once when the parent process has ended."""


def watch(on_end: OnParentEnd) -> Callable[[], None]:
    """Call ``on_end`` on the running loop once the parent has ended, perhaps at once; the result ends the watch."""
    if not ORPHANS_ARE_ADOPTED:
        return watch_input(on_end)
    parent = os.getppid()
    try:
        stop = watch_descriptor(parent, on_end)
    except (AttributeError, OSError):  # another system, an old kernel, or a parent in another PID namespace
        return watch_adoption(parent, on_end)
    if os.getppid() != parent:
        on_end()
    return stop


def watch_descriptor(parent: int, on_end: OnParentEnd) -> Callable[[], None]:
    """Watch a descriptor of the parent: Linux 5.3 and later; raises ``AttributeError`` or ``OSError`` elsewhere."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(parent)
    except ProcessLookupError:
        on_end()
        return lambda: None

    def stop() -> None:
        nonlocal descriptor
        if descriptor >= 0:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            descriptor = -1

    def tell() -> None:
        stop()
        on_end()

    loop.add_reader(descriptor, tell)
    return stop


def watch_adoption(parent: int, on_end: OnParentEnd) -> Callable[[], None]:
    """Check every ``LOOK_EVERY_S`` whether this process has another parent: every POSIX system."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        timer = None
        if os.getppid() == parent:
            timer = loop.call_later(LOOK_EVERY_S, look)
        else:
            on_end()

    def stop() -> None:
        if timer is not None:
            timer.cancel()

    look()
    return stop


def watch_input(on_end: OnParentEnd, descriptor: int = 0) -> Callable[[], None]:
    """Read the standard input until its other end is closed: every system."""
    loop = asyncio.get_running_loop()
    is_over = False

    def tell() -> None:
        if not is_over:
            on_end()

    def read_to_the_end() -> None:
        with suppress(OSError):  # the descriptor is closed, which is the end too
            while os.read(descriptor, 4096):
                pass  # the content is ignored
        if not is_over:
            loop.call_soon_threadsafe(tell)

    def stop() -> None:
        nonlocal is_over
        is_over = True

    threading.Thread(target=read_to_the_end, name="kafkapy-parent", daemon=True).start()
    return stop
