"""Verdicts and what people read."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from bench.report import Result, document, number, table
from bench.rows import Row, all_rows, chosen
from bench.runner import Runs


def row(*, ratio: float | None = None, ceiling: float | None = None) -> Row:
    (latency,) = chosen(all_rows(quick=True), ["latency-p50"])
    return dataclasses.replace(latency, id="x", title="work", unit="s", metric="m", ratio=ratio, ceiling=ceiling)


def verdict(chosen_row: Row, ours: float, kafka: float | None = None, newer: float | None = None) -> str:
    values = {"kafkapy": ours, "kafka-2.7.2": kafka, "kafka-4.4.0": newer}
    measured = {name: [{"m": value}] for name, value in values.items() if value is not None}
    return Result.of(chosen_row, Runs(measured)).verdict


@pytest.mark.parametrize(
    ("ours", "kafka", "newer", "expected"),
    [
        (0.5, 1.0, 1.0, "pass"),
        (0.5, 2.0, 0.9, "miss"),
        (0.6, 1.0, None, "miss"),
        (0.4, None, 1.0, "pass"),
        (0.4, None, None, "–"),
        (0.4, 0.0, None, "–"),
    ],
)
def test_a_ratio_holds_against_the_cheaper_kafka(
    ours: float, kafka: float | None, newer: float | None, expected: str
) -> None:
    assert verdict(row(ratio=0.5), ours, kafka, newer) == expected


def test_a_ceiling_needs_no_kafka() -> None:
    assert verdict(row(ceiling=45), 45) == "pass"
    assert verdict(row(ceiling=45), 45.1) == "miss"
    assert verdict(row(), 1, 2, 3) == "–"


def test_of_two_limits_both_count() -> None:
    both = row(ratio=0.5, ceiling=45)
    assert verdict(both, 45, 100) == "pass"
    assert verdict(both, 45, 80) == "miss"
    assert verdict(both, 46, 100) == "miss"
    assert Result.of(both, Runs()).limit == "0.50 × Kafka, 45 s"


def test_where_a_broker_failed_nothing_passes() -> None:
    ours = Result.of(row(ratio=0.5), Runs({"kafka-2.7.2": [{"m": 1.0}]}, {"kafkapy": "read 0 of 9 records"}))
    assert ours.verdict == "failed"
    assert "failed" in ours.cells()
    measured = {"kafkapy": [{"m": 1.0}], "kafka-2.7.2": [{"m": 4.0}]}
    for limits, expected in ((row(ratio=0.5), "failed"), (row(ceiling=1), "failed"), (row(ratio=0.2), "miss")):
        assert Result.of(limits, Runs(measured, {"kafka-4.4.0": "x"})).verdict == expected
    assert Result.of(row(), Runs(measured, {"kafka-4.4.0": "x"})).verdict == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.00"),
        (0.12345, "0.123"),
        (4.0, "4.00"),
        (42.04, "42.0"),
        (99.99, "100"),
        (12345.6, "12,346"),
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_others_than_apache_kafka_stand_beside_it() -> None:
    measured = {"kafkapy": [{"m": 3.0}], "kafka-2.7.2": [{"m": 9.0}], "kfake": [{"m": 4.0}]}
    result = Result.of(row(ceiling=30), Runs(measured, {"mock": "no"}))
    assert result.cells()[-1] == "kfake 4.00; mock failed"
    assert result.verdict == "failed"
    assert Result.of(row(ceiling=30), Runs(measured)).verdict == "pass"
    assert Result.of(row(), Runs({"kafkapy": [{"m": 3.0}]})).cells()[-1] == "–"


def test_terminal_and_document_have_the_same_figures() -> None:
    passed = Result.of(row(ratio=0.5), Runs({"kafkapy": [{"m": 0.25}], "kafka-2.7.2": [{"m": 1.0}]}))
    terminal = io.StringIO()
    Console(file=terminal, width=200).print(table([passed]))
    for shown in ("0.250", "0.50 × Kafka", "pass"):
        assert shown in terminal.getvalue()
    read = json.loads(document({"date": "2026-01-02"}, [passed], {"load": Runs({"kafkapy": [{"m": 0.25}]})}))
    assert read["date"] == "2026-01-02"
    assert read["rows"][0]["ratios"]["kafka-2.7.2"] == 0.25
    assert read["loads"]["load"]["runs"]["kafkapy"] == [{"m": 0.25}]
