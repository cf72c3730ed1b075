"""An event loop in a separate thread."""

import asyncio
import threading

from kafkapy.testing.loop_thread import LoopThread


def test_coroutines_run_in_the_thread_until_it_is_closed() -> None:
    thread = LoopThread("somewhere-else")

    async def where() -> str:
        return threading.current_thread().name

    assert thread.submit(where()).result(10) == "somewhere-else"
    thread.close()
    thread.close()
    assert "somewhere-else" not in {each.name for each in threading.enumerate()}


def test_close_cancels_running_coroutines() -> None:
    thread = LoopThread("busy")
    began, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    future = thread.submit(endless())
    assert began.wait(10)
    thread.close()
    assert ended.is_set()
    assert future.cancelled()


def test_cancelling_the_future_cancels_the_coroutine() -> None:
    thread = LoopThread("cancelled")
    ended = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def nothing() -> None:
        """One iteration of the loop."""

    future = thread.submit(endless())
    thread.submit(nothing()).result(10)
    future.cancel()
    assert ended.wait(10)
    thread.close()
