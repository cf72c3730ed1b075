"""``kafkapy start``: one broker in the foreground until SIGTERM, SIGHUP or Ctrl-C.

This module must not import modules that only other commands need: a test limits the time from the command to the
first acknowledged record. ``start_options`` parses the command line and imports very little.
"""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import kafkapy
from kafkapy.cli.settings import UsageError, build_config, nearest_key
from kafkapy.cli.signals import on_signals
from kafkapy.cli.start_hooks import StartHooks
from kafkapy.clock import SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.own_keys import API_RELEASE
from kafkapy.network.limits import allow_many_descriptors
from kafkapy.network.loop import BrokerLoop
from kafkapy.platform.errors import LogDirectoryError
from kafkapy.records.scanner import scan_is_compiled
from kafkapy.server.lifecycle import logs
from kafkapy.server.lifecycle.broker import START_FAILURES, BrokerServer
from kafkapy.server.lifecycle.interpreter import Interpreter
from kafkapy.storage.errors import ForeignDirectoryError
from kafkapy.storage.parallel_recovery import default_processes

if TYPE_CHECKING:
    from kafkapy.testing.hosting.security import BrokerSecurity

DEFAULT_PORT: Final = 9092
logger: Final = logging.getLogger("kafkapy")


def run(options: argparse.Namespace) -> int:
    """Start a broker with these options and serve; return the exit code."""
    logs.configure(options.log_level, as_json=options.log_json)
    try:
        if options.ephemeral:
            return _run_ephemeral(options)
        return _serve(options, options.data, in_memory_metadata=False)
    except (UsageError, *START_FAILURES) as error:
        print(f"kafkapy: {error}", file=sys.stderr)  # noqa: T201  the command's answer, whatever the log level
        return 1


def _run_ephemeral(options: argparse.Namespace) -> int:
    from kafkapy.server.lifecycle import ephemeral

    if options.data:
        raise UsageError("--ephemeral keeps no data: it can't be used with --data")
    directory = ephemeral.make_directory()
    try:
        return _serve(options, directory, in_memory_metadata=True)
    finally:
        ephemeral.remove_directory(directory)


def _serve(options: argparse.Namespace, data: str | None, *, in_memory_metadata: bool) -> int:
    port = options.port
    if options.print_bootstrap and port is None and options.config is None:
        port = 0
    security = _security(options)
    settings = [] if security is None else security.settings_on(DEFAULT_PORT if port is None else port)
    if options.act_as is not None:
        settings.append(f"{API_RELEASE}={options.act_as}")
    config = build_config(file=options.config, data=data, port=port, settings=[*settings, *options.settings])
    allow_many_descriptors()
    for name in config.unknown:
        logger.warning("%s: there is no configuration key %r%s; it is ignored", options.config, name, nearest_key(name))
    alone = default_processes() == 1  # polling would take the only processor from the client
    try:
        with asyncio.Runner(loop_factory=lambda: BrokerLoop(polls=not alone)) as runner:
            runner.run(_run_with_extras(config, options, security, in_memory_metadata=in_memory_metadata))
    except ForeignDirectoryError:
        _refuse_cluster(config)
        raise
    return 0


def _security(options: argparse.Namespace) -> "BrokerSecurity | None":
    if options.security is None:
        if options.print_client_properties:
            raise UsageError("--print-client-properties needs --security")
        return None
    if options.config is not None:
        raise UsageError("--security makes settings of its own: it can't be used with --config")
    from kafkapy.testing.errors import BrokerStartError
    from kafkapy.testing.hosting.security import BrokerSecurity

    try:
        return BrokerSecurity(options.security)
    except BrokerStartError as error:
        raise UsageError(str(error)) from None


def _refuse_cluster(config: BrokerConfig) -> None:
    """Raise UsageError if a directory that this broker can't use is that of ``kafkapy cluster start``."""
    from kafkapy.testing.hosting.cluster_directory import ClusterDirectory  # only here, since it imports much

    for path in config.log_dirs:
        if ClusterDirectory(path).broker_count():
            raise UsageError(
                f"{path} has the data of a cluster of brokers: start it with kafkapy cluster start --data {path}"
            )


async def _run_with_extras(
    config: BrokerConfig, options: argparse.Namespace, security: "BrokerSecurity | None", *, in_memory_metadata: bool
) -> None:
    start_hooks = StartHooks()
    try:
        start_hooks.open(options)
        broker = BrokerServer(config, start_hooks.clock, in_memory_metadata=in_memory_metadata, hooks=start_hooks.hooks)
        await _run_broker(broker, start_hooks, options, security)
    finally:
        await start_hooks.close()


async def _run_broker(
    broker: BrokerServer, start_hooks: StartHooks, options: argparse.Namespace, security: "BrokerSecurity | None"
) -> None:
    for_parent = options.print_bootstrap
    stopped = asyncio.Event()
    on_signals(lambda number: _stop(stopped, signal.Signals(number).name))
    unwatch = watch_parent(stopped) if for_parent else None
    gc.disable()  # objects of the start are kept, and collections would take a third of its time
    if not await started(broker.start(), stopped):
        logger.info("Stopped before the start was complete")
        return
    services = broker.services
    interpreter = Interpreter(SystemClock(), services.metrics.request_count, lambda: services.compute.run_count)
    try:
        interpreter.start()
        await start_hooks.serve(broker)
        if security is not None:
            await security.store_users(services)
        _announce(broker.config, broker.bootstrap)
        if for_parent:
            print_lines([broker.bootstrap, *start_hooks.addresses], stopped)
        if security is not None and options.print_client_properties:
            print_lines([*security.property_lines(broker.bootstrap), ""], stopped)
        await _first(stopped, broker.broken)
    finally:
        interpreter.stop()
        await broker.stop()
        if unwatch is not None:
            unwatch()
    if broker.broken.is_set():
        raise LogDirectoryError("Every data directory has failed; see the log above. Repair a disk and start again")
    logger.info("Stopped")


def watch_parent(stopped: asyncio.Event) -> Callable[[], None]:
    """Set ``stopped`` when the parent process has ended; the result ends the watch."""
    from kafkapy.cli import parent

    return parent.watch(lambda: _stop(stopped, "the process that started this one has ended"))


def print_lines(lines: list[str], stopped: asyncio.Event) -> None:
    """Print lines on the standard output; set ``stopped`` if it is closed."""
    try:
        os.write(
            1, "".join(f"{line}\n" for line in lines).encode()
        )  # sys.stdout would keep the text after an error, and fail again at the end
    except OSError:
        _stop(stopped, "the reader of the standard output has closed it")


async def started(start: Coroutine[Any, Any, None], stopped: asyncio.Event) -> bool:
    """Run a start; a signal cancels it, since its recovery may take long. Return whether it is complete."""
    starting, stop = asyncio.ensure_future(start), asyncio.ensure_future(stopped.wait())
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
