"""SIGTERM and Ctrl-C, on systems whose event loops hear them and on others."""

import asyncio
import signal
from collections.abc import Callable
from typing import Final

ROUND_S: Final = 0.25
"""How often a loop that no signal wakes goes round."""


def on_signals(callback: Callable[[int], object]) -> None:
    """Call ``callback(number)`` on the running loop at SIGTERM and SIGINT; from the main thread only."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, callback, number)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda heard, _frame: loop.call_soon_threadsafe(callback, heard))
            _go_round(loop)


def _go_round(loop: asyncio.AbstractEventLoop) -> None:
    """Python runs a signal's handler between two steps of its own, so the loop must not sleep for long."""
    loop.call_later(ROUND_S, _go_round, loop)
