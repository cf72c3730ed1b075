import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kafkapy.platform.files import Files
from kafkapy.platform.flusher import InlineFlusher, ThreadFlusher, pause, sync_all, sync_in_parallel


class Recording(Files):
    """Records the fsynced paths, and the thread of each fsync."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[tuple[str, bool]] = []

    def sync_path(self, path: str) -> None:
        super().sync_path(path)
        self.synced.append((path, threading.current_thread() is threading.main_thread()))


def test_files_that_are_gone_need_no_fsync(tmp_path: Path) -> None:
    files = Recording()
    sync_all(files, [str(tmp_path), str(tmp_path / "gone")])
    assert files.synced == [(str(tmp_path), True)]


def test_the_inline_flusher_does_work_at_once() -> None:
    done: list[str] = []
    flusher = InlineFlusher()
    flusher.flush(lambda: done.append("worked"), lambda: done.append("done"))
    flusher.close()
    assert done == ["worked", "done"]


def test_threads_do_the_work_and_call_the_loop(tmp_path: Path) -> None:
    files = Recording()

    async def scenario() -> bool:
        flusher = ThreadFlusher(asyncio.get_running_loop())
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        flusher.flush(
            lambda: sync_all(files, [str(tmp_path)]),
            lambda: done.set_result(threading.current_thread() is threading.main_thread()),
        )
        told = await done
        flusher.close()
        flusher.run(lambda: files.synced.append(("after the end", True)), lambda: None)
        return told

    assert asyncio.run(scenario())
    assert files.synced == [(str(tmp_path), False)]


def test_flushes_run_in_parallel_and_other_work_in_order() -> None:
    async def scenario() -> list[int]:
        loop = asyncio.get_running_loop()
        flusher = ThreadFlusher(loop)
        both = threading.Barrier(2, timeout=10)
        done: asyncio.Future[None] = loop.create_future()
        order: list[int] = []
        for _ in range(2):
            flusher.flush(both.wait, lambda: None)  # type: ignore[arg-type]  # its result is not looked at
        for number in range(20):
            flusher.run(partial(order.append, number), lambda: None)
        flusher.run(lambda: None, lambda: done.set_result(None))
        await done
        flusher.close()
        return order

    assert asyncio.run(scenario()) == list(range(20))


def test_an_error_of_the_disk_is_logged_and_the_next_work_is_done(caplog: pytest.LogCaptureFixture) -> None:
    def refused() -> None:
        raise OSError("no room")

    async def scenario() -> list[str]:
        flusher = ThreadFlusher(asyncio.get_running_loop())
        told: list[str] = []
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flusher.run(refused, lambda: told.append("refused"))
        flusher.run(lambda: told.append("worked"), lambda: done.set_result(None))
        await done
        flusher.close()
        return told

    assert asyncio.run(scenario()) == ["worked"]
    assert [record.getMessage() for record in caplog.records] == ["The disk refused a write in the background: no room"]


def test_gentle_work_pauses_and_ends_with_the_flusher(caplog: pytest.LogCaptureFixture) -> None:
    steps: list[str] = []
    pauses: list[int] = []
    reached = threading.Event()

    def pause(closed: threading.Event) -> bool:
        pauses.append(len(steps))
        if len(pauses) < 4:
            return False
        reached.set()
        return closed.wait(10)

    def going(names: str) -> Iterator[None]:
        for name in names:
            steps.append(name)
            yield

    def refused() -> Iterator[None]:
        yield
        raise OSError("no room")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        flusher = ThreadFlusher(loop, pause)
        for work in (going("ab"), refused(), going("cd"), going("e")):
            flusher.run_gently(work)
        await loop.run_in_executor(None, reached.wait, 10)
        flusher.close()
        flusher.run_gently(going("f"))

    asyncio.run(scenario())
    assert (steps, pauses) == (["a", "b", "c", "e"], [1, 2, 2, 3, 4])
    assert [record.getMessage() for record in caplog.records] == ["The disk refused a write in the background: no room"]


def test_a_pause_is_over_when_the_flusher_is_closed() -> None:
    closed = threading.Event()
    assert not pause(closed)
    closed.set()
    assert pause(closed)


def test_files_are_fsynced_in_parallel(tmp_path: Path) -> None:
    files = Recording()
    paths = [str(tmp_path / str(number)) for number in range(20)]
    for path in paths[1:]:
        files.create(path)
    sync_in_parallel(files, paths)
    assert sorted(path for path, _ in files.synced) == sorted(paths[1:])
    assert not any(on_main_thread for _, on_main_thread in files.synced)
    sync_in_parallel(files, [])


def test_parallel_fsyncs_raise_the_error_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError("no disk")

    monkeypatch.setattr(Files, "sync_path", broken)
    with pytest.raises(OSError, match="no disk"):
        sync_in_parallel(Files(), [str(tmp_path)])


def test_existing_threads_do_the_work_if_none_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario() -> list[str]:
        flusher = ThreadFlusher(asyncio.get_running_loop())
        monkeypatch.setattr(threading.Thread, "start", refused)
        began, may_end = threading.Event(), threading.Event()
        done: list[str] = []
        last: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def slow() -> None:
            began.set()
            assert may_end.wait(10)
            done.append("slow")

        flusher.flush(slow, lambda: None)
        assert began.wait(10)
        flusher.flush(lambda: done.append("next"), lambda: last.set_result(None))
        may_end.set()
        await asyncio.wait_for(last, 10)
        flusher.close()
        return done

    assert asyncio.run(scenario()) == ["slow", "next"]


def test_other_exceptions_are_reported_as_bugs() -> None:
    def broken() -> None:
        raise RuntimeError("no disk")

    async def scenario() -> list[str]:
        loop = asyncio.get_running_loop()
        reported: asyncio.Queue[str] = asyncio.Queue()
        loop.set_exception_handler(lambda _, context: reported.put_nowait(str(context["exception"])))
        done: list[str] = []
        flusher = ThreadFlusher(loop)
        flusher.run(broken, lambda: done.append("done after a write"))
        flusher.flush(broken, lambda: done.append("done after a flush"))
        done += [await reported.get(), await reported.get()]
        flusher.close()
        return done

    assert asyncio.run(scenario()) == ["done after a flush", "no disk", "no disk"]
