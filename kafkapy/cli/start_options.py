"""The command line of ``kafkapy start``: it is parsed, and its help shown, before the broker is imported."""

import argparse
from collections.abc import Sequence
from typing import Final

from kafkapy.config.own_keys import API_RELEASES
from kafkapy.server.lifecycle import logs

_EXAMPLES: Final = """\
examples:
  kafkapy start
  kafkapy start --data ./data --port 9192 num.partitions=4
  kafkapy start --config server.properties --log-json
  kafkapy start --ephemeral --print-bootstrap     for tests in any language
  kafkapy start --ephemeral --print-bootstrap --security sasl_ssl --print-client-properties
  kafkapy start --trace "api=Produce,Fetch client=app* topic=orders"

With --print-bootstrap the parent may end in any way, also by SIGKILL. A launcher such as npx or uv
counts as the parent while it runs.

Settings override --data and --port, and these override the file. Without a file
group.initial.rebalance.delay.ms is 0 (as in Apache Kafka's sample file).
Without zookeeper.connect the broker is a cluster by itself and stores the metadata itself.
"""


def parser() -> argparse.ArgumentParser:
    """The command line of ``kafkapy start``."""
    description = "Start a broker and keep it running until SIGTERM, SIGHUP or Ctrl-C."
    result = argparse.ArgumentParser(
        "kafkapy start", description=description, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--data", metavar="DIR", help="data directory (default: the user's own, under ~/.local/share)")
    result.add_argument(
        "--port", type=port, help="listen on 127.0.0.1 at this port; 0 takes a free one (default: 9092)"
    )
    result.add_argument("--config", metavar="FILE", help="a server.properties")
    result.add_argument(
        "--ephemeral", action="store_true", help="keep data in a temporary directory, removed when the broker stops"
    )
    result.add_argument(
        "--print-bootstrap",
        action="store_true",
        help="print host:port to the standard output once clients are served (and the control port's address in a"
        " second line if there is one, nothing else), take a free port unless one is given, and stop when the parent"
        " process ends (on Windows: when the standard input ends)",
    )
    result.add_argument(
        "--security",
        metavar="KIND",
        help="for tests: listen with TLS or SASL, with certificates made for this broker and the users admin, alice and"
        " bob; ssl, mtls, sasl_ssl, sasl_plaintext, scram, scram_plaintext, oauth or oauth_unsecured",
    )
    result.add_argument(
        "--print-client-properties",
        action="store_true",
        help="with --security: print the client properties of alice, as Kafka's tools read them, and an empty line",
    )
    result.add_argument(
        "--act-as",
        metavar="RELEASE",
        choices=API_RELEASES,
        help="serve the APIs and versions of this release of Apache Kafka and no others: 2.7, 3.9 or 4.4 (default: all"
        " that there are)",
    )
    result.add_argument("--log-level", choices=logs.LEVELS, default="info", help="how much to log (default: info)")
    result.add_argument("--log-json", action="store_true", help="log one JSON object per line")
    _add_hooks(result)
    result.add_argument("settings", nargs="*", metavar="key=value", help="configuration keys as in server.properties")
    return result


def _add_hooks(result: argparse.ArgumentParser) -> None:
    trace = result.add_mutually_exclusive_group()
    trace.add_argument(
        "--trace",
        nargs="?",
        const="",
        metavar="FILTER",
        help="show every request and its answer on the standard output (the standard error with --print-bootstrap), one"
        " line each; the filter consists of api=, client= and topic=, with commas between alternatives",
    )
    trace.add_argument(
        "--trace-json", nargs="?", const="", metavar="FILTER", help="the same, one JSON object per line, for machines"
    )
    result.add_argument(
        "--control-port",
        type=port,
        metavar="PORT",
        help="for tests: let programs on this machine set faults and advance the clock, over HTTP at this port",
    )


def port(text: str) -> int:
    """The number of a port; raises ``ValueError``."""
    number = int(text)
    if not 0 <= number < 65536:
        raise ValueError(text)
    return number


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; ends the process after --help, or with exit code 2 when they are not valid."""
    return parser().parse_intermixed_args(arguments)
