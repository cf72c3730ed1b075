"""A broker that several threads or tasks start and close at once."""

import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count, repeat

import pytest

from kafkapy.network.loop import BrokerLoop
from kafkapy.testing import AsyncBroker, AsyncCluster, Broker, BrokerNotRunningError, BrokerStartError, Cluster
from kafkapy.testing.loop import thread as loop_thread
from kafkapy.testing.loop.lifecycle import Lifecycle

THREADS = 4
BLOCKING = {"broker": lambda: Broker(topics=["t"]), "cluster": lambda: Cluster(2, topics=["t"])}
COROUTINES = {"broker": lambda: AsyncBroker(topics=["t"]), "cluster": lambda: AsyncCluster(2, topics=["t"])}


def at_once(*calls: Callable[[], object]) -> None:
    """Make each call in a thread of its own, as soon as all threads run; raises what the first one raises."""
    barrier = threading.Barrier(len(calls))

    def make(call: Callable[[], object]) -> None:
        barrier.wait(10)
        call()

    with ThreadPoolExecutor(len(calls)) as threads:
        list(threads.map(make, calls))


@pytest.mark.parametrize("new", BLOCKING.values(), ids=BLOCKING)
def test_threads_that_start_it_at_once_have_one_running_broker(new: Callable[[], Broker | Cluster]) -> None:
    before = threading.active_count()
    for _ in range(3):
        tested = new()
        at_once(*repeat(tested.start, THREADS))
        assert tested.produce("t", b"v").offset == 0
        tested.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("new", COROUTINES.values(), ids=COROUTINES)
def test_tasks_that_start_it_at_once_have_one_running_broker(new: Callable[[], AsyncBroker | AsyncCluster]) -> None:
    async def scenario() -> None:
        tested = new()
        await asyncio.gather(*(tested.start() for _ in range(THREADS)))
        assert (await tested.produce("t", b"v")).offset == 0
        await asyncio.gather(*(tested.close() for _ in range(THREADS)))

    before = threading.active_count()
    for _ in range(3):
        asyncio.run(scenario())
    assert threading.active_count() == before


@pytest.mark.parametrize("new", COROUTINES.values(), ids=COROUTINES)
def test_tasks_that_start_and_close_it_wait_for_each_other(new: Callable[[], AsyncBroker | AsyncCluster]) -> None:
    async def scenario() -> None:
        tested = new()

        async def repeatedly() -> None:
            for _ in range(5):
                await tested.start()
                await tested.close()

        await asyncio.gather(*(repeatedly() for _ in range(THREADS)))
        async with tested:
            assert (await tested.produce("t", b"v")).offset == 0

    before = threading.active_count()
    asyncio.run(scenario())
    assert threading.active_count() == before


@pytest.mark.parametrize("new", BLOCKING.values(), ids=BLOCKING)
def test_threads_that_start_and_close_it_wait_for_each_other(new: Callable[[], Broker | Cluster]) -> None:
    tested = new()

    def repeatedly() -> None:
        for _ in range(5):
            tested.start()
            tested.close()

    before = threading.active_count()
    at_once(*repeat(repeatedly, THREADS))
    assert threading.active_count() == before
    with tested:
        assert tested.produce("t", b"v").offset == 0


def test_every_thread_learns_why_the_broker_can_not_start() -> None:
    broker = Broker({"num.partition": 1})

    def start() -> None:
        with pytest.raises(BrokerStartError, match="did you mean"):
            broker.start()

    before = threading.active_count()
    at_once(*repeat(start, THREADS))
    assert threading.active_count() == before


@pytest.mark.parametrize("new", BLOCKING.values(), ids=BLOCKING)
def test_a_thread_that_waits_learns_that_another_one_has_closed_the_broker(new: Callable[[], Broker | Cluster]) -> None:
    for _ in range(5):
        tested = new().start()
        calls = threading.Barrier(3)

        def wait(tested: Broker | Cluster = tested, calls: threading.Barrier = calls) -> None:
            calls.wait(10)
            with pytest.raises(BrokerNotRunningError):
                tested.wait_for_records("t", 1, timeout_s=30)

        def ask_again_and_again(tested: Broker | Cluster = tested, calls: threading.Barrier = calls) -> None:
            tested.records("t")
            calls.wait(10)
            with pytest.raises(BrokerNotRunningError):
                all(tested.records("t") == [] for _ in count())

        def close(tested: Broker | Cluster = tested, calls: threading.Barrier = calls) -> None:
            calls.wait(10)
            tested.records("t")
            tested.close()

        at_once(wait, ask_again_and_again, close)


@pytest.mark.parametrize("new", COROUTINES.values(), ids=COROUTINES)
def test_a_task_that_waits_learns_that_another_one_has_closed_the_broker(
    new: Callable[[], AsyncBroker | AsyncCluster],
) -> None:
    async def scenario() -> None:
        async with new() as tested:
            waiting = asyncio.ensure_future(tested.wait_for_records("t", 1, timeout_s=30))
            await tested.records("t")
        with pytest.raises(BrokerNotRunningError):
            await waiting

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.usefixtures("heeded_signals")
@pytest.mark.parametrize("new", BLOCKING.values(), ids=BLOCKING)
def test_ctrl_c_while_the_thread_starts_leaves_none(
    new: Callable[[], Broker | Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupts() -> BrokerLoop:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return BrokerLoop()

    before = threading.active_count()
    tested = new()
    with monkeypatch.context() as patched:
        patched.setattr(loop_thread, "BrokerLoop", interrupts)
        with pytest.raises(KeyboardInterrupt):
            tested.start()
    assert threading.active_count() == before
    with tested:
        assert tested.produce("t", b"v").offset == 0


def test_a_thread_that_holds_it_may_take_it_again() -> None:
    lifecycle = Lifecycle()
    with lifecycle, lifecycle:
        pass
    at_once(lifecycle.__enter__)


def test_a_task_that_waits_for_it_may_be_cancelled() -> None:
    async def scenario() -> None:
        lifecycle = Lifecycle()
        async with lifecycle:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), lifecycle:
                    pytest.fail("it is held")
        async with asyncio.timeout(10), lifecycle:
            pass

    asyncio.run(scenario())
