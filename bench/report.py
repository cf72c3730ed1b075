"""The comparison as a table on the terminal, and as JSON with every sample."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from bench.brokers.contestants import KAFKAPY, KAFKAS
from bench.rows import Row
from bench.runner import Runs
from harness.measure import median

COLOURS = {"pass": "green", "miss": "red", "failed": "red"}


@dataclass(frozen=True)
class Result:
    """One row's outcome: the samples of each broker and why some have none."""

    row: Row
    samples: Mapping[str, Sequence[float]]
    failures: Mapping[str, str]

    @classmethod
    def of(cls, row: Row, runs: Runs) -> "Result":
        """The row's metric of its load's cost."""
        brokers = dict.fromkeys([*runs.measured, *runs.failures])
        return cls(row, {name: runs.samples(name, row.metric) for name in brokers}, runs.failures)

    def median(self, broker: str) -> float | None:
        """The middle of the broker's samples; None when it has none."""
        return median(self.samples.get(broker, []))

    def ratio(self, other: str) -> float | None:
        """kafkapy's median divided by the other broker's; None if one of them is missing or 0."""
        ours, theirs = self.median(KAFKAPY), self.median(other)
        return ours / theirs if ours is not None and theirs else None

    @property
    def limit(self) -> str:
        """The limit of kafkapy's cost, as text."""
        limits = [] if self.row.ratio is None else [f"{self.row.ratio:.2f} × Kafka"]
        if self.row.ceiling is not None:
            limits.append(f"{self.row.ceiling:g} {self.row.unit}")
        return ", ".join(limits) or "–"

    @property
    def verdict(self) -> str:
        """`pass`, `miss`, `failed`, or – where no limit is set or nothing to compare with was measured.

        Where any broker failed nothing passes: the comparison is not whole.
        """
        if KAFKAPY in self.failures:
            return "failed"
        kept = self._limits_kept()
        if not kept:
            return "–"
        if not all(kept):
            return "miss"
        return "failed" if self.failures else "pass"

    def _limits_kept(self) -> list[bool]:
        kept = []
        ours = self.median(KAFKAPY)
        if ours is not None and self.row.ceiling is not None:
            kept.append(ours <= self.row.ceiling)
        ratios = [ratio for name in KAFKAS if (ratio := self.ratio(name)) is not None]
        if self.row.ratio is not None and ratios:
            kept.append(max(ratios) <= self.row.ratio)
        return kept

    def cells(self) -> list[str]:
        """The row of the table, without its verdict."""
        medians = [self._value(name) for name in (KAFKAPY, *KAFKAS)]
        ratios = [number(self.ratio(name)) for name in KAFKAS]
        return [self.row.title, self.row.unit, *medians, *ratios, self.limit, self.beside]

    @property
    def beside(self) -> str:
        """The costs of brokers other than Apache Kafka, if there are some."""
        others = [name for name in self.samples if name not in (KAFKAPY, *KAFKAS)]
        return "; ".join(f"{name} {self._value(name)}" for name in others) or "–"

    def _value(self, broker: str) -> str:
        return "failed" if broker in self.failures else number(self.median(broker))


HEADINGS = [
    "work",
    "unit",
    KAFKAPY,
    *KAFKAS,
    *(f"ratio to {name.removeprefix('kafka-')}" for name in KAFKAS),
    "at most",
    "beside it",
]


def number(value: float | None) -> str:
    """Three significant digits, whole from 100 on; – for None."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def table(results: Iterable[Result]) -> Table:
    """For the terminal."""
    drawn = Table(title="kafkapy beside Apache Kafka")
    for place, heading in enumerate([*HEADINGS, ""]):
        drawn.add_column(heading, justify="left" if place < 2 else "right", overflow="fold")
    for result in results:
        colour = COLOURS.get(result.verdict)
        drawn.add_row(*result.cells(), f"[{colour}]{result.verdict}[/]" if colour else result.verdict)
    return drawn


def document(about: Mapping[str, Any], results: Sequence[Result], runs: Mapping[str, Runs]) -> str:
    """JSON: `about` the run, each row's medians and verdict, and all metrics of every run by their load."""
    rows = [
        {
            "id": result.row.id,
            "title": result.row.title,
            "unit": result.row.unit,
            "load": repr(result.row.load),
            "metric": result.row.metric,
            "limit": result.limit,
            "verdict": result.verdict,
            "medians": {name: result.median(name) for name in result.samples},
            "ratios": {name: result.ratio(name) for name in KAFKAS},
        }
        for result in results
    ]
    loads = {
        load: {"runs": run.measured, "failures": run.failures} | ({"settling": run.settling} if run.settling else {})
        for load, run in runs.items()
    }
    return json.dumps({**about, "rows": rows, "loads": loads}, indent=1, ensure_ascii=False) + "\n"
