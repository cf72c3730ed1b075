"""The list of rows, and the order in which they are run."""

import pytest

from bench.loads.workloads import Workload, payload_lines
from bench.rows import all_rows, chosen, needs_warm_brokers, warm_up_loads
from bench.runner import Runs, loads_of, turns


def test_ids_are_unique_and_quick_changes_only_sizes() -> None:
    full, quick = all_rows(quick=False), all_rows(quick=True)
    assert len({row.id for row in full}) == len(full)
    assert [row.id for row in quick] == [row.id for row in full]
    assert [(row.ratio, row.ceiling) for row in quick] == [(row.ratio, row.ceiling) for row in full]
    assert all(loads_of(rows) for rows in (full, quick))
    assert warm_up_loads(quick=True) != warm_up_loads(quick=False)


@pytest.mark.parametrize(
    ("row", "ratio", "ceiling"),
    [
        ("produce-1kB-java", 0.30, None),
        ("produce-100B-librdkafka", 0.50, None),
        ("fetch-1kB-java", 0.60, None),
        ("single-16", 1.0, None),
        ("single-1", 0.8, None),
        ("first-produce-1kB", 0.30, None),
        ("first-fetch-100B", 0.60, None),
        ("first-single-16", 1.0, None),
        ("start", 0.12, None),
        ("memory-idle", None, 45),
        ("transactions-1", 1.0, None),
        ("transactions-1-wait", 1.0, None),
        ("transactions-100-wait", 1.0, None),
        ("recovery", 2.0, None),
        ("partitions-start", 0.3, 5),
        ("partitions-memory", None, 150),
        ("partitions-memory-used", None, 150),
        ("partitions-files", None, 1000),
        ("compaction-100B", 2.0, None),
        ("compaction-memory", None, 128),
        ("compacting-p99", 1.0, None),
        ("compacting-effect", None, 2),
        ("long-append-effect", None, 1.1),
        ("long-log-speed", None, 1.25),
        ("memory-loaded", None, 90),
        ("spark-batch", 1.0, None),
        ("spark-micro-batch", 1.0, None),
        ("produce-1kB-zstd-java", None, None),
    ],
)
def test_limits_are_the_agreed_ones(row: str, ratio: float | None, ceiling: float | None) -> None:
    (found,) = chosen(all_rows(quick=False), [row])
    assert (found.ratio, found.ceiling) == (ratio, ceiling)


def test_rows_are_chosen_by_pattern() -> None:
    rows = all_rows(quick=True)
    if_named = chosen(
        rows, ["spark-*", "small-*", "newer-*", "keyed-*", "tls-*", "scram-*", "acls-*", "throttled", "secured-*"]
    )
    assert [row for row in rows if row not in chosen(rows, [])] == if_named
    assert {row.id.partition("-")[0] for row in chosen(rows, ["fetch-*", "start"])} == {"fetch", "start"}
    with pytest.raises(ValueError, match="no row is called fetsh"):
        chosen(rows, ["start", "fetsh*"])


def test_rows_of_one_load_share_its_runs() -> None:
    rows = chosen(all_rows(quick=True), ["latency-*"])
    assert len(rows) > 3
    assert len(loads_of(rows)) == 1


def test_new_brokers_are_not_warmed() -> None:
    rows = all_rows(quick=True)
    assert needs_warm_brokers(loads_of(rows))
    assert not needs_warm_brokers(loads_of(chosen(rows, ["first-*", "start", "memory-*", "recovery", "partitions-*"])))


def order(row: str, brokers: list[str], rounds: int) -> list[tuple[int, str]]:
    (found,) = chosen(all_rows(quick=True), [row])
    return list(turns(found.load, brokers, rounds))


def test_brokers_take_turns_at_being_first() -> None:
    assert order("produce-1kB-java", ["a", "b", "c"], 2) == [
        (0, "a"), (0, "b"), (0, "c"),
        (1, "b"), (1, "c"), (1, "a"),
        (2, "c"), (2, "a"), (2, "b"),
    ]  # fmt: skip


def test_only_loads_that_need_it_warm_up_and_repeat() -> None:
    assert order("start", ["a"], 3) == [(1, "a"), (2, "a"), (3, "a")]
    assert order("memory-idle", ["a"], 3) == [(1, "a")]
    assert order("produce-1kB-zstd-java", ["a"], 3) == [(0, "a"), (1, "a"), (2, "a")]
    assert order("fetch-1kB-zstd-java", ["a"], 3) == [(1, "a"), (2, "a")]


def test_samples_are_one_metric_of_every_run() -> None:
    runs = Runs({"a": [{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 4.0}]})
    assert runs.samples("a", "x") == [1.0, 3.0]
    assert runs.samples("b", "x") == []


def test_payload_lines_have_the_size_and_never_change() -> None:
    lines = payload_lines(1000, 5)
    assert {len(line) for line in lines} == {1000}
    assert lines == payload_lines(1000, 5)
    assert len(set(lines)) == 5


def test_workloads_name_themselves() -> None:
    assert Workload(10, 1000, 65536, 5, "lz4").name == "1kB-lz4"
    assert Workload(10, 100, 16384, 0).name == "100B"
    assert Workload(10, 1000, 65536, 5).gigabytes(2_000_000) == 2.0
