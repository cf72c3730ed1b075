import asyncio
import threading
from pathlib import Path

import pytest

from kafkapy.storage.files import Files
from kafkapy.storage.flusher import InlineFlusher, ThreadFlusher


class Recording(Files):
    """Notes what was fsynced, and on which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[tuple[str, bool]] = []

    def sync_path(self, path: str) -> None:
        super().sync_path(path)
        self.synced.append((path, threading.current_thread() is threading.main_thread()))


def test_inline_waits_on_the_spot(tmp_path: Path) -> None:
    files = Recording()
    done: list[str] = []
    flusher = InlineFlusher()
    flusher.flush(files, [str(tmp_path), str(tmp_path / "gone")], lambda: done.append("done"))
    flusher.close()
    assert files.synced == [(str(tmp_path), True)]
    assert done == ["done"]


def test_the_thread_waits_and_the_loop_is_told(tmp_path: Path) -> None:
    files = Recording()

    async def scenario() -> bool:
        flusher = ThreadFlusher(asyncio.get_running_loop())
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        flusher.flush(
            files, [str(tmp_path)], lambda: done.set_result(threading.current_thread() is threading.main_thread())
        )
        told = await done
        flusher.close()
        return told

    assert asyncio.run(scenario())
    assert files.synced == [(str(tmp_path), False)]


def test_a_disk_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError("no disk")

    monkeypatch.setattr(Files, "sync_path", broken)

    async def scenario() -> list[str]:
        loop = asyncio.get_running_loop()
        reported: asyncio.Future[str] = loop.create_future()
        loop.set_exception_handler(lambda _, context: reported.set_result(str(context["exception"])))
        done: list[str] = []
        flusher = ThreadFlusher(loop)
        flusher.flush(Files(), [str(tmp_path)], lambda: done.append("done"))
        done.append(await reported)
        flusher.close()
        return done

    assert asyncio.run(scenario()) == ["no disk"]
