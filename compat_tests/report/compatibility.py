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
from kafkapy.server.handlers import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
HANDLERS = ROOT / "kafkapy" / "server" / "handlers"

# The ranges that a running Apache Kafka 2.7.2 in ZooKeeper mode lists in its ApiVersions response.
KAFKA_2_7 = {
    0: (0, 8), 1: (0, 12), 2: (0, 5), 3: (0, 9), 4: (0, 4), 5: (0, 3), 6: (0, 6), 7: (0, 3), 8: (0, 8), 9: (0, 7),
    10: (0, 3), 11: (0, 7), 12: (0, 4), 13: (0, 4), 14: (0, 5), 15: (0, 5), 16: (0, 4), 17: (0, 1), 18: (0, 3),
    19: (0, 6), 20: (0, 5), 21: (0, 2), 22: (0, 4), 23: (0, 3), 24: (0, 2), 25: (0, 2), 26: (0, 2), 27: (0, 0),
    28: (0, 3), 29: (0, 2), 30: (0, 2), 31: (0, 2), 32: (0, 3), 33: (0, 1), 34: (0, 1), 35: (0, 2), 36: (0, 2),
    37: (0, 3), 38: (0, 2), 39: (0, 2), 40: (0, 2), 41: (0, 2), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 0),
    46: (0, 0), 47: (0, 0), 48: (0, 0), 49: (0, 0), 50: (0, 0), 51: (0, 0), 56: (0, 0), 57: (0, 0),
}  # fmt: skip

HEAD = """# What kafkapy serves of Kafka's protocol, and to whom

Made by `python -m compat_tests.report.compatibility` from `kafkapy/server/handlers/__init__.py`, the card that opens
each handler, and `docs/compatibility.json`, which `make compatibility` writes; `make check` fails when it is stale. The
versions of Apache Kafka are those that a running 2.7.2 lists.

## APIs

| key | API | kafkapy | Apache Kafka 2.7.2 | not done |
|---:|---|---|---|---|
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
    kafka = _range(KAFKA_2_7.get(key))
    name = "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
    if api is None:
        return f"| {key} | {name} | – | {kafka} | not built yet |"
    ours = _range((api.min_version, api.max_version)) + (" (between brokers only)" if api.between_brokers else "")
    return f"| {key} | {name} | {ours} | {kafka} | {not_done(card(api.module))} |"


def page() -> str:
    """Return the whole page."""
    keys = sorted(KAFKA_2_7.keys() | {int(key) for key in REGISTRY})
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
