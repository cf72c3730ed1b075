"""Calls from a test's thread into the thread that runs the broker's event loop."""

import asyncio
import concurrent.futures
import os
from collections.abc import Callable
from typing import Final, TypeVar

from kafkapy.network.loop import BrokerLoop
from kafkapy.testing.errors import BrokerNotRunningError

T = TypeVar("T")

PATIENCE_S: Final = 1.0
"""How long to wait for the call before checking whether the loop still runs."""


def is_inherited(loop: asyncio.AbstractEventLoop | None) -> bool:
    """Whether the loop runs in the process that this one was forked from, and so never here."""
    return isinstance(loop, BrokerLoop) and loop.is_running() and loop.process != os.getpid()


def check_process(process: int) -> None:
    """Raise ``BrokerNotRunningError`` unless this is the process that the broker runs in."""
    if process != os.getpid():
        raise BrokerNotRunningError(
            f"the broker runs in process {process}, from which this one was forked: call it there, or use another one"
        )


def check_loop(loop: asyncio.AbstractEventLoop | None) -> None:
    """Raise ``BrokerNotRunningError`` when the loop ``is_inherited``."""
    if isinstance(loop, BrokerLoop) and loop.is_running():
        check_process(loop.process)


def call_on(loop: asyncio.AbstractEventLoop | None, function: Callable[[], T]) -> T:
    """Call ``function`` on the thread of ``loop``; return its result, or raise its exception.

    On that thread, or when the loop does not run, it is called at once. Raises ``RuntimeError`` when the loop ends
    before the call has been made, and ``BrokerNotRunningError`` when the loop ``is_inherited``.
    """
    check_loop(loop)
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
