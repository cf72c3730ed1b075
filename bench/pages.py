"""`python -m bench.pages FILE…`: adds finished runs of the bench to the pages of bench/results.

`python -m bench` writes the file, `out/bench/<name>.json`. Each page whose rows were measured gets a line in its
history, a column in its table and a line for the machine, and `raw/<page>.json` has the samples of this run. A run with
`--name` keeps the name in its column's heading and in `raw/<page>-<name>.json`.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from bench.brokers.contestants import KAFKAPY, KAFKAS
from bench.report import number

RESULTS = Path(__file__).resolve().parent / "results"
PAGES = {
    "small-requests": ("small-*", "keyed-*"),
    "produce-and-fetch": ("produce-*", "fetch-*", "first-*", "single-*", "durable-*", "latency-*"),
    "groups-and-commits": ("commits-*", "settle-*", "join-*"),
    "transactions": ("transactions-*",),
    "compaction": ("compaction-*", "compacting-*"),
    "memory-and-start": ("start*", "test-*", "memory-*", "recovery*", "partitions-*"),
    "long-logs": ("long-*",),
    "failover": ("cluster-leaderless*", "cluster-failover-*"),
    "cluster": ("cluster-*",),
    "spark": ("spark-*",),
    "newer-apis": ("newer-*",),
    "security": ("tls-*", "scram-*", "acls-*", "throttled", "secured-*"),
}
"""The rows of each page; a row is on the first page that has it."""
HISTORY = "| date | commit | figures | in short |"
FIGURES = "| work | unit | at most |"
MACHINES = "Machines (processors, interpreter, load average before):"
COLUMNS_BEFORE = 3
Document = Mapping[str, Any]
Cells = list[str]


def page_of(row_id: str) -> str:
    """The name of the page that has a row."""
    return next(page for page, patterns in PAGES.items() if any(fnmatchcase(row_id, each) for each in patterns))


def parts_of(document: Document) -> dict[str, Document]:
    """The document of each page: its rows and the runs of their loads."""
    parts: dict[str, Document] = {}
    for page in dict.fromkeys(page_of(row["id"]) for row in document["rows"]):
        rows = [row for row in document["rows"] if page_of(row["id"]) == page]
        loads = {row["load"]: document["loads"][row["load"]] for row in rows}
        parts[page] = {**document, "rows": rows, "loads": loads}
    return parts


def cell(row: Document, failures: Mapping[str, str]) -> str:
    """kafkapy / Apache Kafka 2.7.2 / the newest, the ratios to these, and other brokers in brackets; bold: a miss."""
    values = {name: number(value) for name, value in row["medians"].items() if value is not None}
    values |= dict.fromkeys(failures, "failed")
    main = " / ".join(values[name] for name in (KAFKAPY, *KAFKAS) if name in values)
    ratios = ", ".join(number(ratio) for ratio in row["ratios"].values() if ratio is not None)
    others = "; ".join(f"{name} {value}" for name, value in values.items() if name not in (KAFKAPY, *KAFKAS))
    text = main + (f", {ratios} ×" if ratios else "") + (f" ({others})" if others else "")
    return f"**{text}**" if row["verdict"] == "miss" else text


def with_run(page: str, stem: str, document: Document) -> str:
    """The text of a page with one more run, whose samples are in `raw/<stem>.json`.

    Raises ValueError if the page lacks one of its parts, or the run has "the same …" without the row before it.
    """
    lines = page.splitlines()
    cells = [cell(row, document["loads"][row["load"]]["failures"]) for row in document["rows"]]
    heading = " ".join(filter(None, (document["date"], commit_of(document), document["name"])))
    missed = [row["title"] for row in document["rows"] if row["verdict"] == "miss"]
    in_short = f"missed: {'; '.join(missed)}" if missed else "no limit missed"
    first = f"{document['rows'][0]['title']}: {cells[0].strip('*')}"
    columns = (document["date"], commit_of(document), first, in_short)
    lines.insert(_place(lines, HISTORY) + 2, f"| {' | '.join(columns)} |")
    _insert_column(lines, heading, document["rows"], cells)
    lines.insert(_place(lines, MACHINES) + 2, f"- {heading}: {machine_of(document)}")
    if f"(raw/{stem}.json)" not in page:
        lines[_place(lines, "Raw ")] += f" Of {heading}: [raw/{stem}.json](raw/{stem}.json)."
    return "\n".join(lines) + "\n"


def commit_of(document: Document) -> str:
    """The commit of the package that was measured."""
    found = re.search(r"commit ([\w.-]+)", document["machine"]["kafkapy"])
    return found[1] if found is not None else "no commit known"


def machine_of(document: Document) -> str:
    """Processors, interpreter and load average, on one line."""
    machine = document["machine"]
    python = " ".join(machine["python"].split()[:2])
    return f"{machine['processor']}, {python}, load {machine['load average before']}"


def _place(lines: Sequence[str], start: str) -> int:
    """The number of the first line that begins so."""
    for place, line in enumerate(lines):
        if line.startswith(start):
            return place
    raise ValueError(f"no line of the page begins with {start!r}")


def _insert_column(lines: list[str], heading: str, rows: Sequence[Document], cells: Sequence[str]) -> None:
    """Put a column before those of earlier runs, and rows at the end that the table does not have yet."""
    begin = _place(lines, FIGURES)
    end = next((at for at in range(begin, len(lines)) if not lines[at].startswith("|")), len(lines))
    head, rule, *table = [[each.strip() for each in line.strip("|").split("|")] for line in lines[begin:end]]
    measured = [[row["title"], row["unit"], row["limit"], found] for row, found in zip(rows, cells, strict=True)]
    new = dict(zip(_keys(measured), measured, strict=True))
    for key, row in zip(list(_keys(table)), table, strict=True):
        row[2:3] = new.pop(key)[2:] if key in new else [row[2], ""]
    table += [[*row, *([""] * (len(head) - COLUMNS_BEFORE))] for row in new.values()]
    head.insert(COLUMNS_BEFORE, heading)
    rule.insert(COLUMNS_BEFORE, "--:")
    lines[begin:end] = [f"| {' | '.join(head)} |", f"|{'|'.join(rule)}|", *(f"| {' | '.join(row)} |" for row in table)]


def _keys(rows: Sequence[Cells]) -> Iterator[tuple[str, str, str]]:
    """For each row its title and unit, below the title of the row that "the same" means; they are unique."""
    meant = ""
    found = set()
    for title, unit, *_ in rows:
        if not title.startswith("the same"):
            meant = title
        elif not meant:
            raise ValueError(f"the row before {title!r} was not measured")
        key = (meant, title, unit)
        if key in found:
            raise ValueError(f"two rows are called {title!r}, in {unit}")
        found.add(key)
        yield key


def add(document: Document, results: Path = RESULTS) -> list[Path]:
    """Add a run to its pages, and replace their raw samples; the files that were written."""
    texts: dict[Path, str] = {}
    for page, part in parts_of(document).items():
        stem = "-".join(filter(None, (page, document["name"])))
        path = results / f"{page}.md"
        texts[path] = with_run(path.read_text(), stem, part)
        texts[results / "raw" / f"{stem}.json"] = json.dumps(part, indent=1, ensure_ascii=False) + "\n"
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return list(texts)


def main() -> int:
    """Add the runs in the order of the command line; 1 if one of them can't be added."""
    parser = argparse.ArgumentParser(
        "python -m bench.pages", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for file in parser.parse_args().files:
        try:
            written = add(json.loads(file.read_text()))
        except (OSError, ValueError, KeyError) as error:
            print(f"bench: {file}: {error}", file=sys.stderr)
            return 1
        for path in written:
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
