"""Calls from a test's thread into the thread that runs the broker's event loop."""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE_S: Final = 1.0
"""How long to wait for the call before checking whether the loop still runs."""


def call_on(loop: asyncio.AbstractEventLoop | None, function: Callable[[], T]) -> T:
    """Call ``function`` on the thread of ``loop``; return its result, or raise its exception.

    On that thread, or when the loop does not run, it is called at once. Raises ``RuntimeError`` when the loop ends
    before the call has been made.
    """
    if loop is None or not loop.is_running() or _is_here(loop):
        return function()
    done: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            done.set_result(function())
        except BaseException as error:  # noqa: BLE001  # it is raised where the call was made
            done.set_exception(error)

    loop.call_soon_threadsafe(run)
    while True:
        try:
            return done.result(PATIENCE_S)
        except concurrent.futures.TimeoutError:
            if not loop.is_running() and not done.done():
                raise RuntimeError("the broker has stopped") from None


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
