"""Handlers of SIGTERM and Ctrl-C, also on systems whose event loops don't support signal handlers."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

ROUND_S: Final = 0.25
"""How often an event loop that signals can't wake runs an iteration."""


def on_signals(callback: Callable[[int], object]) -> None:
    """Call ``callback(number)`` on the running loop at SIGTERM and SIGINT; from the main thread only."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, callback, number)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda heard, _frame: loop.call_soon_threadsafe(callback, heard))
            _wake_repeatedly(loop)


def _wake_repeatedly(loop: asyncio.AbstractEventLoop) -> None:
    """Wake the loop every ``ROUND_S``: Python runs a signal's handler only when the loop's thread runs."""
    loop.call_later(ROUND_S, _wake_repeatedly, loop)


def ignore_signals() -> None:
    """Ignore SIGTERM and SIGINT from now on, on the running loop and after its end: the program stops already."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows
            loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
