"""Finished runs are added to the pages of bench/results."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.pages import RESULTS, add, page_of, with_run
from bench.rows import all_rows

PAGE = """# Commits

Raw samples of the newest run: [raw/groups-and-commits.json](raw/groups-and-commits.json).

## History

| date | commit | figures | in short |
|---|---|---|---|
| 2026-01-01 | abc | earlier | kept |

## Figures of all runs

| work | unit | at most | 2026-01-01 abc |
|---|---|--:|--:|
| commits | µs | 2.00 × Kafka | 5.00 / 6.00 |
| the same | per s | – | 9.00 |
| other commits | µs | – | 1.00 |
| the same | per s | – | 2.00 |

Machines (processors, interpreter, load average before):

- 2026-01-01 abc: one

Text.
"""


def row(title: str, unit: str, ours: float, kafka: float, verdict: str = "pass") -> dict[str, Any]:
    medians = {"kafkapy": ours, "kafka-2.7.2": kafka, "mock": 0.5}
    ratios = {"kafka-2.7.2": ours / kafka, "kafka-4.4.0": None}
    return {"id": "commits-1", "title": title, "unit": unit, "load": "load", "limit": "1.00 × Kafka",
            "verdict": verdict, "medians": medians, "ratios": ratios}  # fmt: skip


def document(*rows: dict[str, Any], name: str = "") -> dict[str, Any]:
    machine = {"kafkapy": "0.1.0, commit 1234abc, record scan compiled", "processor": "2 × X",
               "python": "CPython 3.11.7 (main)", "load average before": "0.1 0.2 0.3"}  # fmt: skip
    loads = {"load": {"runs": {}, "failures": {"kafka-4.4.0": "ended"}}}
    return {"date": "2026-01-02", "name": name, "machine": machine, "rows": list(rows), "loads": loads}


def test_a_run_becomes_a_column_and_a_line_of_the_history() -> None:
    run = document(
        row("commits", "µs", 3.0, 2.0, "miss"), row("the same", "per s", 4.0, 8.0), row("new work", "s", 1.0, 1.0)
    )
    added = with_run(PAGE, "groups-and-commits", run).splitlines()
    lines = PAGE.splitlines()
    assert [line for line in added if line not in lines] == [
        "| 2026-01-02 | 1234abc | commits: 3.00 / 2.00 / failed, 1.50 × (mock 0.500) | missed: commits |",
        "| work | unit | at most | 2026-01-02 1234abc | 2026-01-01 abc |",
        "|---|---|--:|--:|--:|",
        "| commits | µs | 1.00 × Kafka | **3.00 / 2.00 / failed, 1.50 × (mock 0.500)** | 5.00 / 6.00 |",
        "| the same | per s | 1.00 × Kafka | 4.00 / 8.00 / failed, 0.500 × (mock 0.500) | 9.00 |",
        "| other commits | µs | – |  | 1.00 |",
        "| the same | per s | – |  | 2.00 |",
        "| new work | s | 1.00 × Kafka | 1.00 / 1.00 / failed, 1.00 × (mock 0.500) |  |",
        "- 2026-01-02 1234abc: 2 × X, CPython 3.11.7, load 0.1 0.2 0.3",
    ]


def test_a_named_run_has_its_own_samples() -> None:
    added = with_run(PAGE, "groups-and-commits-debian", document(row("commits", "µs", 1.0, 2.0), name="debian"))
    assert (
        "Of 2026-01-02 1234abc debian: [raw/groups-and-commits-debian.json](raw/groups-and-commits-debian.json)."
        in (added)
    )
    assert "| at most | 2026-01-02 1234abc debian |" in added


def test_the_same_as_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="the row before 'the same' was not measured"):
        with_run(PAGE, "groups-and-commits", document(row("the same", "per s", 1.0, 2.0)))
    with pytest.raises(ValueError, match="no line of the page begins with"):
        with_run("# Other\n", "groups-and-commits", document(row("commits", "µs", 1.0, 2.0)))


def test_raw_samples_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "groups-and-commits.md").write_text(PAGE)
    for ours in (1.0, 1.5):
        written = add(document(row("commits", "µs", ours, 2.0)), tmp_path)
    assert written == [tmp_path / "groups-and-commits.md", tmp_path / "raw" / "groups-and-commits.json"]
    assert json.loads(written[1].read_text())["rows"][0]["medians"]["kafkapy"] == 1.5
    assert "| 1.50 / 2.00 / failed, 0.750 × (mock 0.500) | 1.00 / 2.00 / failed" in written[0].read_text()


@pytest.mark.parametrize("quick", [False, True])
def test_the_pages_take_every_row(quick: bool) -> None:
    rows: dict[str, list[dict[str, Any]]] = {}
    for each in all_rows(quick=quick):
        rows.setdefault(page_of(each.id), []).append(row(each.title, each.unit, 1.0, 2.0))
    for page, measured in rows.items():
        text = with_run((RESULTS / f"{page}.md").read_text(), page, document(*measured))
        assert text.count("1.00 / 2.00 / failed, 0.500 ×") == len(measured) + 1, "one is in the history"
