"""docs/compatibility.md out of `REGISTRY`, the handlers' cards and what the compatibility suite found.

`python -m compat_tests.report.compatibility` writes the page; `--check` fails if it is out of date. `--results FILE`
first adds to `docs/compatibility.json` the results of runs of `compat_tests` with the same option; if several of the
files have a result of a test, the last one counts.
"""

import argparse
import ast
import re
import sys
from pathlib import Path

from compat_tests.report import client_table, results
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.server.dispatch.api_table import Api
from kafkapy.server.dispatch.releases import SERVED
from kafkapy.server.handlers import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
HANDLERS = ROOT / "kafkapy" / "server" / "handlers"

RELEASES = ("2.7.2", "3.9.1", "4.4.0")
"""The releases in the order of ``Versions``."""

KRAFT, SHARE, STREAMS = "belongs to KRaft", "share groups are not built", "streams groups are not built"
NOT_BUILT = {
    55: KRAFT, 58: KRAFT, 64: KRAFT, 67: KRAFT, 80: KRAFT, 81: KRAFT, 94: KRAFT,
    **dict.fromkeys((76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92), SHARE),
    **dict.fromkeys((88, 89, 93), STREAMS),
}  # fmt: skip
"""By key, why an API is not served."""
NAMES = {ApiKey.LIST_CLIENT_METRICS_RESOURCES: "ListConfigResources"}
"""Names that have changed since 3.9.1, from which ``ApiKey`` has them."""

HEAD = """# What kafkapy serves of Kafka's protocol, and to whom

Made by `python -m compat_tests.report.compatibility` from `kafkapy/server/handlers/__init__.py`, the card that opens
each handler, and `docs/compatibility.json`, which `make compatibility` writes; `make check` fails when it is stale. The
versions of Apache Kafka are those that a running broker lists to clients: 2.7.2 and 3.9.1 beside ZooKeeper, 4.4.0 as a
KRaft node. `kafkapy start --act-as 4.4` serves what is in both columns, kafkapy's and that release's, and nothing else.

## APIs

| key | API | kafkapy | 2.7.2 | 3.9.1 | 4.4.0 | not done |
|---:|---|---|---|---|---|---|
"""


def card(module: str) -> str:
    """Return the docstring that opens a handler's file."""
    return ast.get_docstring(ast.parse((HANDLERS / f"{module}.py").read_text())) or ""


def not_done(text: str) -> str:
    """Return what a card says under "Not done", on one line; "" when it says nothing."""
    found = re.search(r"Not done: (.*?)(?=\n[A-Z][\w ]*: |\n\n|\nWith |\nErrors|\Z)", text, re.DOTALL)
    return " ".join(found.group(1).split()).rstrip(".") if found else ""


def _range(versions: tuple[int, int] | None) -> str:
    if versions is None:
        return "–"
    low, high = versions
    return f"{low}" if low == high else f"{low}–{high}"


def _row(key: int, api: Api | None) -> str:
    kafka = " | ".join(map(_range, SERVED.get(key, (None,) * len(RELEASES))))
    name = NAMES.get(ApiKey(key), "".join(word.capitalize() for word in ApiKey(key).name.split("_")))
    if api is None:
        return f"| {key} | {name} | – | {kafka} | {NOT_BUILT.get(key, 'not built yet')} |"
    ours = _range((api.min_version, api.max_version)) + (" (between brokers only)" if api.between_brokers else "")
    return f"| {key} | {name} | {ours} | {kafka} | {not_done(card(api.module))} |"


def page() -> str:
    """Return the whole page."""
    keys = sorted(SERVED.keys() | {int(key) for key in REGISTRY})
    rows = [_row(key, REGISTRY.get(ApiKey(key))) for key in keys]
    return HEAD + "\n".join(rows) + "\n\n" + client_table.page_of(client_table.read())


def take_over(whole: list[Path] | None, more: list[Path] | None) -> None:
    """Summarize what runs have found; raises ValueError when tests failed, or found otherwise what is told already."""
    if whole is not None:
        client_table.write(client_table.summary_of(client_table.passing(results.merged(whole))))
    if more is not None:
        client_table.write(client_table.extended(client_table.read(), client_table.passing(results.merged(more))))


def main(arguments: list[str] | None = None) -> int:
    """Write or check the page; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the page is stale")
    parser.add_argument("--results", type=Path, nargs="+", metavar="FILE", help="what runs of compat_tests found")
    parser.add_argument("--add", type=Path, nargs="+", metavar="FILE", help="the same, of what is not told yet")
    options = parser.parse_args(arguments)
    if options.results is not None or options.add is not None:
        try:
            take_over(options.results, options.add)
        except (OSError, ValueError) as error:
            print(f"no results are taken over: {error}", file=sys.stderr)
            return 1
    if not options.check:
        PAGE.write_text(page())
        return 0
    if PAGE.is_file() and PAGE.read_text() == page():
        return 0
    print(f"{PAGE.relative_to(ROOT)} is stale: run python -m compat_tests.report.compatibility", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
