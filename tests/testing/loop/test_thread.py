"""An event loop in a separate thread."""

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from kafkapy.testing.errors import BrokerNotRunningError
from kafkapy.testing.loop.thread import LoopThread


def started(name: str) -> LoopThread:
    thread = LoopThread(name)
    thread.start()
    return thread


def test_coroutines_run_in_the_thread_until_it_is_closed() -> None:
    thread = started("somewhere-else")

    async def where() -> str:
        return threading.current_thread().name

    assert thread.submit(where()).result(10) == "somewhere-else"
    thread.close()
    thread.close()
    assert "somewhere-else" not in {each.name for each in threading.enumerate()}


def test_close_cancels_running_coroutines(caplog: pytest.LogCaptureFixture) -> None:
    thread = started("busy")
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
    with pytest.raises(BrokerNotRunningError, match="was stopped or closed before the call ended"):
        future.result(10)
    assert caplog.messages == []


def test_calls_that_were_submitted_before_the_end_fail_and_later_ones_are_refused() -> None:
    """None of them waits for its time-out."""

    async def endless() -> None:
        await asyncio.Event().wait()

    def submit_until_closed() -> None:
        while True:
            futures.append(thread.submit(endless()))
            submits.set()

    for _ in range(20):
        thread = started("busy")
        submits = threading.Event()
        futures: list[Future[None]] = []
        with ThreadPoolExecutor(1) as caller:
            refused = caller.submit(submit_until_closed)
            assert submits.wait(10)
            thread.close()
            with pytest.raises(BrokerNotRunningError, match="does not run"):
                refused.result(10)
        for future in futures:
            with pytest.raises(BrokerNotRunningError, match="before the call ended"):
                future.result(10)


def test_a_call_that_the_broker_cancels_fails_too() -> None:
    async def cancelled() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    thread = started("stopped")
    with pytest.raises(BrokerNotRunningError, match="before the call ended"):
        thread.call(cancelled(), 10)
    thread.close()


def test_cancelling_the_future_cancels_the_coroutine() -> None:
    thread = started("cancelled")
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


def test_a_thread_that_is_closed_before_it_begins_ends_at_once() -> None:
    """Ctrl-C may interrupt a start before the thread has begun."""

    async def nothing() -> None:
        pytest.fail("the loop does not run")

    thread = LoopThread("interrupted")
    thread.close()
    thread.start()
    for each in threading.enumerate():
        if each.name == "interrupted":
            each.join(10)
    thread.close()
    assert "interrupted" not in {each.name for each in threading.enumerate()}
    with pytest.raises(BrokerNotRunningError, match="does not run"):
        thread.submit(nothing())
