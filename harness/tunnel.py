"""A loopback port that is a broker's secured listener without its security, for programs that send bytes as they are.

    python -m harness.tunnel PORT TARGET_PORT < properties.json

The process connects to the target for each connection that it accepts: with TLS, and logged in, as the client
properties say that it reads as JSON. Then it passes bytes on, both ways, and a slow reader stays one. ``Tunnel`` starts
it. So the fuzzer, the campaigns and their second clients need no code for TLS and SASL.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from harness.keeper import keeper
from harness.process import HOST, free_port
from kafkapy.protocol.client_core import ClientCore
from kafkapy.protocol.message import ProtocolError
from kafkapy.security.client import client_security
from kafkapy.security.settings import ClientSecurity

PIECE_SIZE: Final = 65_536
BACKLOG: Final = 1_024
HOST_NAME: Final = "localhost"
"""The certificate's name."""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Tunnel:
    """The process. ``properties`` are those of a Java client, with their texts in PEM."""

    def __init__(self, target_port: int, properties: Mapping[str, str]) -> None:
        self.port = free_port()
        arguments = [str(self.port), str(target_port)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.tunnel", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        keeper().note("process", self._process.pid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(dict(properties)))
        self._process.stdin.close()
        assert self._process.stdout.readline() == "ready\n", "the tunnel did not start"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        keeper().forget("process", self._process.pid)
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid


class _Server:
    """The tunnel, within its process."""

    def __init__(self, target_port: int, security: ClientSecurity) -> None:
        self._target_port = target_port
        self._security = security
        self._tasks: set[asyncio.Task[object] | None] = set()
        """Those of the connections: asyncio has no reference to them."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until one side has closed it."""
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            with suppress(OSError, ProtocolError, asyncio.IncompleteReadError):
                await self._join((reader, writer))
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _join(self, client: Stream) -> None:
        tls = self._security.tls
        broker = await asyncio.open_connection(
            HOST, self._target_port, ssl=tls, server_hostname=HOST_NAME if tls else None
        )
        try:
            await self._log_in(broker)
            pumps = [asyncio.create_task(_pump(client[0], broker[1])), asyncio.create_task(_pump(broker[0], client[1]))]
            _, others = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for each in others:
                each.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            broker[1].close()

    async def _log_in(self, broker: Stream) -> None:
        if self._security.authenticate is None:
            return
        core = ClientCore("tunnel")
        steps = self._security.authenticate(HOST_NAME)
        request, version = next(steps)
        with suppress(StopIteration):
            while True:
                broker[1].write(core.request(request, version))
                while (response := core.next_response()) is None:
                    data = await broker[0].read(PIECE_SIZE)
                    if not data:
                        raise ConnectionError("the broker closed the connection")
                    core.receive_data(data)
                request, version = steps.send(response)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(PIECE_SIZE):
        writer.write(data)
        await writer.drain()


async def _run(port: int, target_port: int, security: ClientSecurity) -> None:
    server = _Server(target_port, security)
    async with await asyncio.start_server(server.serve, HOST, port, backlog=BACKLOG) as listening:
        print("ready", flush=True)
        await listening.serve_forever()


def main() -> None:
    properties = json.load(sys.stdin)
    asyncio.run(_run(int(sys.argv[1]), int(sys.argv[2]), client_security(properties, int(time.time() * 1000))))


if __name__ == "__main__":
    main()
