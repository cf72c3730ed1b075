"""SIGTERM, SIGHUP and Ctrl-C."""

import asyncio
import os
import signal
from asyncio import SelectorEventLoop

import pytest

from kafkapy.cli import signals


def heard_by(number: int) -> int:
    async def run() -> int:
        heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        signals.on_signals(heard.set_result)
        os.kill(os.getpid(), number)
        return await heard

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        return asyncio.run(asyncio.wait_for(run(), 10))
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@pytest.mark.usefixtures("heeded_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_call_back_on_the_loop(number: int) -> None:
    assert heard_by(number) == number


@pytest.mark.usefixtures("heeded_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_call_back_on_loops_without_signal_handlers(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(SelectorEventLoop, "add_signal_handler", refuse)
    monkeypatch.setattr(signals, "ROUND_S", 0.01)
    assert heard_by(number) == number
