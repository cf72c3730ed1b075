"""A proxy between a client and a broker, which keeps every frame.

It passes one request at a time to the broker, except those that may wait, so that requests overlap at playback as they
did in the recording.
"""

import asyncio
import threading
from types import TracebackType
from typing import Self

from compat_tests.differential.recordings.recording import BROKER, CLIENT, Frame, Recording
from harness.process import HOST, free_port

ANSWERED_WITHIN_S = 0.5
WAITING_APIS = (1, 11, 14)
"""The wait for an answer of Fetch, JoinGroup and SyncGroup, which may take long, before the next request is passed."""
A_MOMENT_S = 0.03


class Proxy:
    """Listens on a port of its own in a thread of its own; ``recording`` is what passed since the last ``restart``."""

    def __init__(self, broker_port: int, port: int | None = None) -> None:
        self.port = port or free_port()
        self._broker_port = broker_port
        self.recording = Recording(self.port)
        self._loop = asyncio.new_event_loop()
        self._turn = asyncio.Lock()
        self._connections = 0
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def restart(self) -> None:
        """Forget what was recorded; connections that are open stay out of the next recording."""
        self.recording = Recording(self.port)
        self._connections = 0

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, HOST, self.port, limit=1 << 24)

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        recording, number = self.recording, self._connections
        self._connections += 1
        from_broker, to_broker = await asyncio.open_connection(HOST, self._broker_port, limit=1 << 24)
        answered = asyncio.Event()
        back = asyncio.ensure_future(self._answers(from_broker, writer, recording, number, answered))
        try:
            while True:
                frame = await _frame_of(reader)
                async with self._turn:
                    recording.frames.append(Frame(number, CLIENT, frame))
                    answered.clear()
                    to_broker.write(len(frame).to_bytes(4, "big") + frame)
                    waits = int.from_bytes(frame[:2], "big") in WAITING_APIS
                    await _until(answered, A_MOMENT_S if waits else ANSWERED_WITHIN_S)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client, or the recorder, is done
        finally:
            back.cancel()
            to_broker.close()
            writer.close()

    async def _answers(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        recording: Recording,
        number: int,
        answered: asyncio.Event,
    ) -> None:
        try:
            while True:
                frame = await _frame_of(reader)
                recording.frames.append(Frame(number, BROKER, frame))
                writer.write(len(frame).to_bytes(4, "big") + frame)
                answered.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def _frame_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def _until(event: asyncio.Event, timeout_s: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return
