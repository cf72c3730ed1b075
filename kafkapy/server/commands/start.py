"""``kafkapy start``: one broker in the foreground until SIGTERM or Ctrl-C.

Nothing here imports what only the other commands need: the time from the command to the first acknowledged record is
a promise. The command line is read by ``start_options``, which imports next to nothing.
"""

import argparse
import asyncio
import gc
import logging
import signal
import sys
from typing import Final

import kafkapy
from kafkapy.clock import SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.records.scanner import scan_is_compiled
from kafkapy.server import logs
from kafkapy.server.broker import START_FAILURES, BrokerServer
from kafkapy.server.commands.settings import UsageError, build_config, nearest
from kafkapy.server.limits import allow_many_descriptors
from kafkapy.storage.errors import LogDirectoryError

_log: Final = logging.getLogger("kafkapy")


def run(options: argparse.Namespace) -> int:
    """Start with these options and serve; the exit code."""
    logs.configure(options.log_level, as_json=options.log_json)
    try:
        if options.ephemeral:
            return _run_ephemeral(options)
        return _serve(options, options.data, in_memory_metadata=False)
    except (UsageError, *START_FAILURES) as error:
        print(f"kafkapy: {error}", file=sys.stderr)  # noqa: T201  the command's answer, log level or not
        return 1


def _run_ephemeral(options: argparse.Namespace) -> int:
    import tempfile

    if options.data:
        raise UsageError("--ephemeral keeps nothing: it does not go with --data")
    with tempfile.TemporaryDirectory(prefix="kafkapy-") as directory:
        return _serve(options, directory, in_memory_metadata=True)


def _serve(options: argparse.Namespace, data: str | None, *, in_memory_metadata: bool) -> int:
    config = build_config(file=options.config, data=data, port=options.port, settings=options.settings)
    allow_many_descriptors()
    for name in config.unknown:
        _log.warning("%s: there is no configuration key %r%s; it is ignored", options.config, name, nearest(name))
    asyncio.run(_run_broker(BrokerServer(config, SystemClock(), in_memory_metadata=in_memory_metadata)))
    return 0


async def _run_broker(broker: BrokerServer) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, stopped, number)
    gc.disable()  # what a start makes stays, and looking through it again and again takes a third of the start
    if not await _started(broker, stopped):
        _log.info("Stopped before the start was over")
        return
    try:
        # What lives as long as the broker need not be looked at by every full collection: that takes milliseconds.
        gc.freeze()
        gc.enable()
        _announce(broker.config, broker.bootstrap)
        await _first(stopped, broker.broken)
    finally:
        await broker.stop()
    if broker.broken.is_set():
        raise LogDirectoryError("Every data directory has failed; the log above says how. Mend a disk and start again")
    _log.info("Stopped")


async def _started(broker: BrokerServer, stopped: asyncio.Event) -> bool:
    """Start the broker, unless a signal comes before it is done: a recovery may take long."""
    starting, stop = asyncio.ensure_future(broker.start()), asyncio.ensure_future(stopped.wait())
    await asyncio.wait([starting, stop], return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if starting.done():
        await starting
        return True
    starting.cancel()
    await asyncio.wait([starting])
    return False


async def _first(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


def _stop(stopped: asyncio.Event, number: int) -> None:
    _log.info("Stopping: %s", signal.Signals(number).name)
    stopped.set()


def _announce(config: BrokerConfig, bootstrap: str) -> None:
    scan = "compiled" if scan_is_compiled() else "interpreted (slow for large loads: install with a C compiler)"
    _log.info(
        "kafkapy %s is ready at %s. Data directory: %s. Record scan: %s",
        kafkapy.__version__,
        bootstrap,
        ", ".join(config.log_dirs),
        scan,
    )
