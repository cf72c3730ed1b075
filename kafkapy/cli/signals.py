"""Handlers of the signals that stop a program, also on systems whose event loops don't support signal handlers."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

ROUND_S: Final = 0.25
"""How often an event loop that signals can't wake runs an iteration."""


def stop_signals() -> list[signal.Signals]:
    """SIGTERM, SIGINT (Ctrl-C), and SIGHUP (the terminal is closed) unless it is ignored, as ``nohup`` arranges."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    hang_up = getattr(signal, "SIGHUP", None)  # Windows has none
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        numbers.append(hang_up)
    return numbers


def on_signals(callback: Callable[[int], object]) -> None:
    """Call ``callback(number)`` on the running loop at each of ``stop_signals``; from the main thread only."""
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        try:
            loop.add_signal_handler(number, callback, number)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda heard, _frame: loop.call_soon_threadsafe(callback, heard))
            _wake_repeatedly(loop)


def _wake_repeatedly(loop: asyncio.AbstractEventLoop) -> None:
    """Wake the loop every ``ROUND_S``: Python runs a signal's handler only when the loop's thread runs."""
    loop.call_later(ROUND_S, _wake_repeatedly, loop)


def ignore_signals() -> None:
    """Ignore ``stop_signals`` from now on, on the running loop and after its end: the program stops already."""
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        with suppress(NotImplementedError):  # Windows
            loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
