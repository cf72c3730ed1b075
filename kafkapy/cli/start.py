"""``kafkapy start``: one broker in the foreground until SIGTERM or Ctrl-C.

Nothing here imports what only the other commands need: the time from the command to the first acknowledged record is
a promise. The command line is read by ``start_options``, which imports next to nothing.
"""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

import kafkapy
from kafkapy.cli.settings import UsageError, build_config, nearest_key
from kafkapy.cli.signals import on_signals
from kafkapy.cli.start_hooks import Extras
from kafkapy.clock import SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.network.limits import allow_many_descriptors
from kafkapy.network.loop import BrokerLoop
from kafkapy.records.scanner import scan_is_compiled
from kafkapy.server import logs
from kafkapy.server.broker import START_FAILURES, BrokerServer
from kafkapy.server.interpreter import Interpreter
from kafkapy.storage.errors import LogDirectoryError
from kafkapy.storage.recovery.mending import default_processes

logger: Final = logging.getLogger("kafkapy")


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
    from kafkapy.server import ephemeral

    if options.data:
        raise UsageError("--ephemeral keeps nothing: it does not go with --data")
    directory = ephemeral.make_directory()
    try:
        return _serve(options, directory, in_memory_metadata=True)
    finally:
        ephemeral.remove_directory(directory)


def _serve(options: argparse.Namespace, data: str | None, *, in_memory_metadata: bool) -> int:
    port = options.port
    if options.print_bootstrap and port is None and options.config is None:
        port = 0
    config = build_config(file=options.config, data=data, port=port, settings=options.settings)
    allow_many_descriptors()
    for name in config.unknown:
        logger.warning("%s: there is no configuration key %r%s; it is ignored", options.config, name, nearest_key(name))
    alone = default_processes() == 1  # then whoever polls keeps the client from asking
    with asyncio.Runner(loop_factory=lambda: BrokerLoop(polls=not alone)) as runner:
        runner.run(_run_with_extras(config, options, in_memory_metadata=in_memory_metadata))
    return 0


async def _run_with_extras(config: BrokerConfig, options: argparse.Namespace, *, in_memory_metadata: bool) -> None:
    extras = Extras()
    try:
        extras.open(options)
        broker = BrokerServer(config, extras.clock, in_memory_metadata=in_memory_metadata, hooks=extras.hooks)
        await _run_broker(broker, extras, for_parent=options.print_bootstrap)
    finally:
        await extras.close()


async def _run_broker(broker: BrokerServer, extras: Extras, *, for_parent: bool) -> None:
    stopped = asyncio.Event()
    on_signals(lambda number: _stop(stopped, signal.Signals(number).name))
    unwatch = _watch_parent(stopped) if for_parent else None
    gc.disable()  # what a start makes stays, and looking through it again and again takes a third of the start
    if not await _started(broker, stopped):
        logger.info("Stopped before the start was over")
        return
    services = broker.services
    interpreter = Interpreter(SystemClock(), services.metrics.request_count, lambda: services.compute.run_count)
    try:
        interpreter.start()
        await extras.serve(broker)
        _announce(broker.config, broker.bootstrap)
        if for_parent:
            _print_addresses([broker.bootstrap, *extras.addresses], stopped)
        await _first(stopped, broker.broken)
    finally:
        interpreter.stop()
        await broker.stop()
        if unwatch is not None:
            unwatch()
    if broker.broken.is_set():
        raise LogDirectoryError("Every data directory has failed; the log above says how. Mend a disk and start again")
    logger.info("Stopped")


def _watch_parent(stopped: asyncio.Event) -> Callable[[], None]:
    from kafkapy.cli import parent

    return parent.watch(lambda: _stop(stopped, "the process that started this one has ended"))


def _print_addresses(addresses: list[str], stopped: asyncio.Event) -> None:
    try:
        os.write(
            1, "".join(f"{address}\n" for address in addresses).encode()
        )  # sys.stdout would keep what is refused, and fail once more at the end
    except OSError:
        _stop(stopped, "nobody reads the standard output")


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


def _stop(stopped: asyncio.Event, reason: str) -> None:
    logger.info("Stopping: %s", reason)
    stopped.set()


def _announce(config: BrokerConfig, bootstrap: str) -> None:
    scan = "compiled" if scan_is_compiled() else "interpreted (slow for large loads: install with a C compiler)"
    logger.info(
        "kafkapy %s is ready at %s. Data directory: %s. Record scan: %s",
        kafkapy.__version__,
        bootstrap,
        ", ".join(config.log_dirs),
        scan,
    )
