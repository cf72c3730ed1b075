"""The command line of ``kafkapy cluster start``: it is parsed, and its help shown, before the broker is imported."""

import argparse
from collections.abc import Sequence
from typing import Final

from kafkapy.cli.start_options import port
from kafkapy.server.lifecycle import logs

BROKERS: Final = 3
FIRST_PORT: Final = 9092

_EXAMPLES: Final = """\
examples:
  kafkapy cluster start
  kafkapy cluster start --brokers 5 --port 19092 min.insync.replicas=2
  kafkapy cluster start --data ./cluster                    keeps the data for the next start
  kafkapy cluster start --racks a,b,c                       broker 0 in rack a, 1 in b, 2 in c, 3 in a, …
  kafkapy cluster start --print-bootstrap --control-port 0  for tests in any language

All brokers run in this one process, with loopback addresses: the cluster is for development and tests. Topics have
replicas on three brokers, or on all if there are fewer, unless default.replication.factor says otherwise. Try
  kafkapy brokers
  kafkapy topics create flights --partitions 6
  kafkapy topics describe flights
With --control-port, programs on this machine can kill, pause, restart and separate brokers, set faults and advance
the clock: the port's page lists the requests.
"""


def parser() -> argparse.ArgumentParser:
    """The command line of ``kafkapy cluster start``."""
    result = argparse.ArgumentParser(
        "kafkapy cluster start",
        description="Start a cluster of brokers in one process and keep it running until SIGTERM, SIGHUP or Ctrl-C.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "--brokers", type=int, metavar="N",
        help=f"how many brokers, numbered from 0 (default: {BROKERS}, or as many as the kept data have)",
    )  # fmt: skip
    result.add_argument(
        "--data", metavar="DIR", help="keep the data in this directory (default: a temporary one, removed at the end)"
    )
    result.add_argument(
        "--port", type=port,
        help=f"the first broker's port on 127.0.0.1, the others have the next ones; 0 takes free ones (default:"
        f" {FIRST_PORT})",
    )  # fmt: skip
    result.add_argument("--racks", metavar="A,B,…", help="the brokers' racks, in turn")
    result.add_argument(
        "--print-bootstrap",
        action="store_true",
        help="print the addresses of all brokers in one line to the standard output once clients are served (and the"
        " control port's address in a second line if there is one, nothing else), take free ports unless one is given,"
        " and stop when the parent process ends",
    )
    result.add_argument(
        "--control-port", type=port, metavar="PORT",
        help="for tests: let programs on this machine control brokers, faults and the clock, over HTTP at this port",
    )  # fmt: skip
    result.add_argument("--log-level", choices=logs.LEVELS, default="error", help="how much to log (default: error)")
    result.add_argument("--log-json", action="store_true", help="log one JSON object per line")
    result.add_argument(
        "settings", nargs="*", metavar="key=value", help="configuration keys as in server.properties, for all brokers"
    )
    return result


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; ends the process after --help, or with exit code 2 when they are not valid."""
    return parser().parse_intermixed_args(arguments)
