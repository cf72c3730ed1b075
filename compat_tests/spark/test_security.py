"""Rates, sessions and blocks are exact, also after kills of the queries; only the crawlers are blocked."""

import json
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.spark.runs import TIMEOUT_S, finished, kill, starter
from harness.process import Broker, wait_for

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pandas", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from spark_examples import request_trace, security, topics

SECONDS = 8
LOOKING = ("Metadata", "ListOffsets", "Fetch", "OffsetForLeaderEpoch")
CRAWLERS = {"127.0.0.66": "topics", "127.0.0.67": "rate", "127.0.0.68": "topics"}
HONEST = {"127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14"}
Seen = dict[str, list[tuple[int, set[str]]]]
"""By address: time and topics of each request."""


def read_trace(path: Path) -> Seen:
    found: Seen = defaultdict(list)
    for line in path.read_text().splitlines():
        told = json.loads(line)
        if told["kind"] == "request":
            named = told["body"].get("topics") or [] if told["api"] in LOOKING else []
            names = {str(each.get("name") or each.get("topic")) for each in named if isinstance(each, dict)}
            found[told["peer"].split(":")[0]].append((told["time_ms"], names))
    return found


def expected_rates(seen: Seen) -> Counter[tuple[str, int]]:
    return Counter((address, time_ms // 1000 * 1000) for address, rows in seen.items() for time_ms, _ in rows)


def expected_sessions(seen: Seen) -> dict[tuple[str, int], tuple[int, int]]:
    """By address and first request: the number of requests, and the last one."""
    sessions: dict[tuple[str, int], tuple[int, int]] = {}
    for address, rows in seen.items():
        first = last = None
        for time_ms, _ in sorted(rows, key=lambda row: row[0]):
            first = time_ms if last is None or time_ms - last >= 2000 else first
            assert first is not None
            last = time_ms
            sessions[address, first] = sessions.get((address, first), (0, 0))[0] + 1, time_ms
    return sessions


def read_spans(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    records = topics.read_all(bootstrap, topic)
    values = [json.loads(record.value) for record in records]
    assert [value["address"].encode() for value in values] == [record.key for record in records]
    return values


def read_block_list(bootstrap: str, topic: str) -> dict[str, dict[str, Any]]:
    """The view of a client that reads the compacted topic: the last record of each address, no tombstones."""
    last = {record.key.decode(): record.value for record in topics.read_all(bootstrap, topic)}
    return {address: json.loads(value) for address, value in last.items() if value is not None}


def random_trace(chance: random.Random) -> security.Trace:
    """Addresses that are quick, slow, curious or not; times often lie just at a limit."""
    found = []
    for number in range(6):
        now_ms, most_pause_ms, width = 0, chance.choice([3, 40, 900]), chance.choice([3, 20, 60])
        for _ in range(chance.randrange(1, 900)):
            pause = chance.choice([1999, 2000, 3999, 4000, 4001]) if chance.random() < 0.01 else None
            now_ms += chance.randrange(most_pause_ms) if pause is None else pause
            names = frozenset({f"topic-{chance.randrange(width)}"} if chance.random() < 0.3 else ())
            found.append(security.Request(now_ms, f"address-{number}", names))
    return security.Trace(sorted(found, key=lambda row: row.time_ms), 0)


@pytest.mark.parametrize("seed", range(20))
def test_the_state_of_an_address_gives_the_blocks_that_its_whole_history_gives(seed: int) -> None:
    """Time-outs come at random moments, as the watermark brings them, or not at all."""
    chance = random.Random(seed)
    trace = random_trace(chance)
    found = []
    for address, rows in security.by_address(trace).items():
        watch = security.Watch()
        for row in rows:
            if row.time_ms - watch.last_ms >= security.BLOCK_MS and chance.random() < 0.5:
                found += [(address, *action) for action in watch.expire(watch.last_ms + security.BLOCK_MS)]
            found += [(address, *action) for action in watch.see(row.time_ms, row.topics)]
        found += [(address, *action) for action in watch.expire(rows[-1].time_ms + security.BLOCK_MS)]
    ended = {action[:3]: action for action in found}  # the end of a block comes after its begin
    assert sorted(map(security.Block._make, ended.values()), key=repr) == sorted(
        security.blocks_expected(trace), key=repr
    )


@pytest.fixture
def run(broker: Broker, topic_name: str, tmp_path: Path) -> Iterator[Any]:
    """Starts the pipeline in a process group of its own."""
    given = ("--bootstrap", broker.bootstrap, "--prefix", topic_name, "--out", str(tmp_path))
    with starter("security", *given) as begin:
        yield begin


def check_exact(bootstrap: str, prefix: str, seen: Seen, repeats: bool) -> None:
    """Rates, sessions and the block list are those of the trace."""
    rates = read_spans(bootstrap, f"{prefix}-rates")
    counts = {(each["address"], each["start_ms"]): each["requests"] for each in rates}
    assert counts == expected_rates(seen)
    sessions = read_spans(bootstrap, f"{prefix}-sessions")
    found = {(each["address"], each["start_ms"]): (each["requests"], each["last_ms"]) for each in sessions}
    assert found == expected_sessions(seen)
    if not repeats:
        assert (len(rates), len(sessions)) == (len(counts), len(found))
    blocks = security.read_blocks(security.SecurityJob(bootstrap, Path(), prefix))
    assert {(block.address, block.reason) for block in blocks} == set(CRAWLERS.items())
    assert Counter(block.address for block in blocks) == {"127.0.0.66": 2, "127.0.0.67": 1, "127.0.0.68": 1}
    for address, until_ms in ((block.address, block.until_ms) for block in blocks if block.until_ms is not None):
        assert until_ms == max(time_ms for time_ms, _ in seen[address] if time_ms < until_ms) + 4000
    assert {
        address: entry["reason"] for address, entry in read_block_list(bootstrap, f"{prefix}-block-list").items()
    } == {"127.0.0.66": "topics"}


@pytest.mark.scenario("records", client="spark-4.0.0")
@pytest.mark.spark
@pytest.mark.long  # many micro-batches with state: minutes on two processors
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_planted_crawlers_are_found_and_nobody_else(broker: Broker, topic_name: str, run: Any, tmp_path: Path) -> None:
    finished(run("--seconds", str(SECONDS)), 0)
    seen = read_trace(tmp_path / "trace.jsonl")
    assert seen.keys() >= HONEST | CRAWLERS.keys()
    check_exact(broker.bootstrap, topic_name, seen, repeats=False)
    letters = topics.read_all(broker.bootstrap, f"{topic_name}-dead-letters")
    assert Counter(letter.value for letter in letters) == Counter(security.BROKEN_LINES)
    assert Counter(dict(letter.headers)["reason"] for letter in letters) == {b"not JSON": 2, b"incomplete": 1}
    assert (tmp_path / "security.png").read_bytes().startswith(b"\x89PNG")

    shutil.rmtree(tmp_path / "checkpoints")
    told = finished(run("--resume"), 1)
    assert "option startingOffsets decides where a query begins: with --starting-offsets earliest" in told


@pytest.mark.scenario("records", client="spark-4.0.0")
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_queries_that_are_killed_and_resumed_find_the_same_and_tell_of_lost_records(
    broker: Broker, topic_name: str, run: Any, tmp_path: Path
) -> None:
    lines = request_trace.record(SECONDS)
    request_trace.write_trace(lines, tmp_path / "trace.jsonl")
    job = security.SecurityJob(broker.bootstrap, tmp_path / "checkpoints" / "security", topic_name)
    security.create_topics(job)
    half = len(lines) // 2
    security.send(job, lines[:half])
    first = run("--resume", "--rows-per-batch", "500")
    commits = tmp_path / "checkpoints" / "security" / "detection" / "commits"
    assert wait_for(lambda: commits.is_dir() and any(commits.iterdir()), TIMEOUT_S)
    kill(first)
    security.send(job, [*lines[half:], security.closing_line(lines)])
    finished(run("--resume"), 0)
    check_exact(broker.bootstrap, topic_name, read_trace(tmp_path / "trace.jsonl"), repeats=True)

    ends = {index: extent.end for index, extent in topics.extents(broker.bootstrap, job.requests).items()}
    security.send(job, lines[:100])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    gone = [
        TopicPartition(job.requests, index, extent.end)
        for index, extent in topics.extents(broker.bootstrap, job.requests).items()
    ]
    assert any(place.offset > ends[place.partition] for place in gone)
    for future in admin.delete_records(gone).values():
        future.result(30)
    told = finished(run("--resume"), 1)
    assert "option failOnDataLoss decides: with --no-fail-on-data-loss" in told
    finished(run("--resume", "--no-fail-on-data-loss"), 0)
