"""``kafkapy cluster start``: several brokers in the foreground, in one process, until SIGTERM, SIGHUP or Ctrl-C.

They are the brokers of ``kafkapy.testing.Cluster``, without its settings for quick tests.
"""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Final

import kafkapy
from kafkapy.cli.cluster_options import BROKERS, FIRST_PORT
from kafkapy.cli.settings import START_DEFAULTS, UsageError, parse_settings
from kafkapy.cli.signals import ignore_signals, on_signals
from kafkapy.cli.start import print_lines, started, watch_parent
from kafkapy.clock import SystemClock
from kafkapy.network.limits import allow_many_descriptors
from kafkapy.network.listener import ListenError
from kafkapy.network.loop import BrokerLoop
from kafkapy.server.lifecycle import logs
from kafkapy.server.lifecycle.interpreter import Interpreter
from kafkapy.storage.parallel_recovery import default_processes
from kafkapy.testing.control.cluster import ControlledCluster
from kafkapy.testing.control.port import ControlPort
from kafkapy.testing.errors import BrokerStartError
from kafkapy.testing.hosting.cluster_directory import ClusterDirectory
from kafkapy.testing.hosting.cluster_surface import check_count
from kafkapy.testing.hosting.hosted_broker import HostedBroker
from kafkapy.testing.hosting.hosted_cluster import HostedCluster
from kafkapy.testing.hosting.settings import replication_defaults

logger: Final = logging.getLogger("kafkapy")

_NOT_A_SETTING: Final[Mapping[str, str]] = {
    "broker.id": "the brokers are numbered from 0",
    "broker.rack": "use --racks",
    "log.dirs": "use --data",
    "log.dir": "use --data",
    "port": "use --port",
    "host.name": "the brokers listen on 127.0.0.1",
    "listeners": "use --port; the brokers listen on 127.0.0.1",
    "advertised.listeners": "the brokers listen on 127.0.0.1",
    "zookeeper.connect": "a cluster on a ZooKeeper consists of one kafkapy start for each broker",
}
"""Keys that can't be the same for all brokers of the process, and what to do instead."""
_HIGHEST_PORT: Final = 65_535


def run(options: argparse.Namespace) -> int:
    """Start a cluster with these options and serve; return the exit code."""
    logs.configure(options.log_level, as_json=options.log_json)
    try:
        cluster = build_cluster(options)
        allow_many_descriptors()
        alone = default_processes() == 1  # polling would take the only processor from the client
        with asyncio.Runner(loop_factory=lambda: BrokerLoop(polls=not alone)) as runner:
            runner.run(_run_with_control(cluster, options))
    except (UsageError, BrokerStartError, ListenError) as error:
        print(f"kafkapy: {error}", file=sys.stderr)  # noqa: T201  the command's answer, whatever the log level
        return 1
    return 0


def build_cluster(options: argparse.Namespace) -> HostedCluster:
    """The cluster that the options ask for. Raises ``UsageError`` and ``BrokerStartError``."""
    settings = parse_settings(options.settings)
    for name, instead in _NOT_A_SETTING.items():
        if name in settings:
            raise UsageError(f"{name} can't be a setting of the whole cluster: {instead}")
    if options.data is not None and not options.data:
        raise UsageError("--data '' names no directory: write --data DIR, or leave --data out for a temporary one")
    count = options.brokers
    if count is None:
        count = _kept_count(options.data) or BROKERS
    check_count(count)
    first = options.port
    if first is None:
        first = 0 if options.print_bootstrap else FIRST_PORT
    if first + count - 1 > _HIGHEST_PORT:
        raise UsageError(f"{count} ports from {first} on don't exist: the highest port is {_HIGHEST_PORT}")
    racks = [""] if options.racks is None else [rack.strip() for rack in options.racks.split(",")]
    if options.racks is not None and not all(racks):
        raise UsageError(f"--racks {options.racks!r} has a rack without a name: write --racks a,b,c")
    hosts = [
        HostedBroker({**settings, "broker.rack": racks[at % len(racks)]}, port=first + at if first else 0)
        for at in range(count)
    ]
    return HostedCluster(hosts, data=options.data, defaults={**START_DEFAULTS, **replication_defaults(count)})


def _kept_count(data: str | None) -> int:
    if data is None:
        return 0
    try:
        return ClusterDirectory(data).broker_count()
    except OSError as error:
        raise UsageError(f"{data} can't be used as a data directory: {error.strerror}") from error


async def _run_with_control(cluster: HostedCluster, options: argparse.Namespace) -> None:
    async with AsyncExitStack() as ends:
        control = None
        if options.control_port is not None:
            control = ControlPort(ControlledCluster(cluster), options.control_port)
            ends.push_async_callback(control.stop)
        await _run_cluster(cluster, control, options)


async def _run_cluster(cluster: HostedCluster, control: ControlPort | None, options: argparse.Namespace) -> None:
    stopped = asyncio.Event()

    def stop(number: int) -> None:
        ignore_signals()  # a second Ctrl-C must not interrupt the stop
        logger.info("Stopping: %s", signal.Signals(number).name)
        stopped.set()

    on_signals(stop)
    unwatch = watch_parent(stopped) if options.print_bootstrap else None
    gc.disable()  # objects of the start are kept, and collections would take a third of its time
    interpreter = _interpreter(cluster)
    try:
        if not await started(cluster.start(), stopped):
            logger.info("Stopped before the start was complete")
            return
        interpreter.start()
        urls = []
        if control is not None:
            await control.start()
            urls = [control.url]
        print_lines([cluster.bootstrap, *urls] if options.print_bootstrap else banner(cluster, urls), stopped)
        await stopped.wait()
    finally:
        interpreter.stop()
        await cluster.close(cleanly=True)
        if unwatch is not None:
            unwatch()
    logger.info("Stopped")


def _interpreter(cluster: HostedCluster) -> Interpreter:
    def requests() -> int:
        return sum(host.services.metrics.request_count() for host in cluster.running)

    def large_requests() -> int:
        return sum(host.services.compute.run_count for host in cluster.running)

    return Interpreter(SystemClock(), requests, large_requests)


def banner(cluster: HostedCluster, control_urls: list[str]) -> list[str]:
    """The lines for a person: the addresses of the running cluster, how to connect, how to stop."""
    count = len(cluster.hosts)
    lines = [
        f"kafkapy {kafkapy.__version__}: a cluster of {count} {'broker' if count == 1 else 'brokers'} is ready",
        "",
    ]
    for host in cluster.hosts:
        rack = host.services.config.text("broker.rack")
        lines.append(f"  broker {host.broker_id:<3} {host.bootstrap}{f'   rack {rack}' if rack else ''}")
    first = cluster.hosts[0].bootstrap
    connect = "" if first.endswith(f":{FIRST_PORT}") else f" --bootstrap {first}"
    if cluster.directory is None:
        data = "temporary, removed at the end; --data DIR keeps them"
    else:
        data = f"{cluster.directory.path}, kept for the next start"
    lines += [
        "",
        f"  clients   bootstrap.servers={cluster.bootstrap}",
        f"  look      kafkapy brokers{connect}{'' if count == 1 else '   (any of the addresses will do)'}",
        f"  data      {data}",
        *(f"  control   {url}/   kill, pause and separate brokers, faults, clock" for url in control_urls),
        f"  stop      Ctrl-C, or kill {os.getpid()}",
        "",
    ]
    return lines
