"""Watching the process that started this one; tests/cli/test_start.py kills one."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from kafkapy.cli import parent


def scenario(watch: Callable[[parent.OnParentEnd], Callable[[], None]], end: Callable[[], object]) -> None:
    """``watch`` calls back after ``end`` was called, and not before."""

    async def run() -> None:
        gone = asyncio.Event()
        stop = watch(gone.set)
        await asyncio.sleep(0)
        assert not gone.is_set()
        end()
        await gone.wait()
        stop()

    asyncio.run(asyncio.wait_for(run(), 10))


@pytest.fixture
def other() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def test_the_end_of_the_parent_is_detected(other: "subprocess.Popen[bytes]") -> None:
    scenario(lambda gone: parent.watch_descriptor(other.pid, gone), other.kill)
    other.wait()


def test_a_parent_that_has_ended_before_is_reported_at_once(other: "subprocess.Popen[bytes]") -> None:
    async def run() -> None:
        told: list[bool] = []
        parent.watch_descriptor(other.pid, lambda: told.append(True))()
        assert told

    other.kill()
    other.wait()
    asyncio.run(run())


def test_the_adoption_of_an_orphan_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "LOOK_EVERY_S", 0.001)
    own = os.getppid()
    scenario(lambda gone: parent.watch_adoption(own, gone), lambda: monkeypatch.setattr(os, "getppid", lambda: 1))


def test_the_end_of_the_input_is_detected(other: "subprocess.Popen[bytes]") -> None:
    other.kill()
    other.wait()
    reader, writer = os.pipe()
    os.write(writer, b"not read by anybody")
    scenario(lambda gone: parent.watch_input(gone, reader), lambda: os.close(writer))
    os.close(reader)


def test_a_stopped_watch_does_not_call_back(monkeypatch: pytest.MonkeyPatch, other: "subprocess.Popen[bytes]") -> None:
    async def run() -> None:
        told: list[bool] = []
        reader, writer = os.pipe()
        watches = (
            lambda gone: parent.watch_descriptor(other.pid, gone),
            lambda gone: parent.watch_adoption(os.getppid(), gone),
            lambda gone: parent.watch_input(gone, reader),
            parent.watch,
        )
        for watch in watches:
            stop = watch(lambda: told.append(True))
            stop()
            stop()
        other.kill()
        other.wait()
        os.close(writer)
        await asyncio.sleep(0.01)
        assert not told
        os.close(reader)

    asyncio.run(run())


@pytest.mark.parametrize("lacking", ["pidfd_open", "adoption", "nothing"])
def test_the_kind_of_watch_depends_on_the_system(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    for name in ("watch_input", "watch_adoption"):
        monkeypatch.setattr(parent, name, lambda *_, name=name: used.append(name) or (lambda: None))
    if lacking == "pidfd_open":
        monkeypatch.delattr(os, "pidfd_open")
    elif lacking == "adoption":
        monkeypatch.setattr(parent, "ORPHANS_ARE_ADOPTED", False)

    async def run() -> None:
        parent.watch(lambda: None)()

    asyncio.run(run())
    assert used == {"pidfd_open": ["watch_adoption"], "adoption": ["watch_input"], "nothing": []}[lacking]


def test_a_parent_that_ends_while_the_watch_begins_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.getppid()
    answers = iter([own, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(answers))
    told: list[bool] = []

    async def run() -> None:
        parent.watch(lambda: told.append(True))()

    asyncio.run(run())
    assert told == [True]
