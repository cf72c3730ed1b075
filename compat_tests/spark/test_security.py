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
from kafka import KafkaProducer

from compat_tests.spark.runs import TIMEOUT_S, finished, kill, starter, submit, watched
from harness.process import Broker, wait_for

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pandas", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from pyspark.sql import Row

from spark_examples.common import topics
from spark_examples.security import demonstration, job, request_trace

SECONDS = 8
LOOKING = ("Metadata", "ListOffsets", "Fetch", "OffsetForLeaderEpoch")
CRAWLERS = {"127.0.0.66": "topics", "127.0.0.67": "rate", "127.0.0.68": "topics"}
HONEST = {"127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14"}
Seen = dict[str, list[tuple[int, set[str]]]]
"""By address: time and topics of each request, in the order of time."""
Block = tuple[str, int, str, int | None]
"""Address, begin, reason and end; no end is for good."""


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
            first = time_ms if last is None or time_ms - last > 2000 else first
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


def divided(rows: list[tuple[int, set[str]]], gap_ms: int) -> list[list[tuple[int, set[str]]]]:
    """The requests of one address, divided where it was quiet for so long or longer."""
    parts: list[list[tuple[int, set[str]]]] = []
    for row in rows:
        if not parts or row[0] - parts[-1][-1][0] >= gap_ms:
            parts.append([])
        parts[-1].append(row)
    return parts


def offence(session: list[tuple[int, set[str]]], count: int) -> str | None:
    """What the last of the first so many requests of a session is a reason for."""
    now_ms = session[count - 1][0]
    if sum(now_ms - time_ms < 1000 for time_ms, _ in session[:count]) > 150:
        return "rate"
    return "topics" if len(set().union(*(names for _, names in session[:count]))) >= 15 else None


def expected_blocks(seen: Seen) -> list[Block]:
    """An address is blocked for its first offence after a pause, twice at most; the second time it is for good."""
    blocks: list[Block] = []
    for address, rows in seen.items():
        offences = []
        for run in divided(rows, 4000):
            counts = [(session, count) for session in divided(run, 2001) for count in range(1, len(session) + 1)]
            found = ((session[count - 1][0], offence(session, count)) for session, count in counts)
            first = next(((since_ms, reason) for since_ms, reason in found if reason), None)
            if first:
                offences.append((*first, run[-1][0] + 4000))
        for number, (since_ms, reason, until_ms) in enumerate(offences[:2]):
            blocks.append((address, since_ms, reason, None if number else until_ms))
    return sorted(blocks)


def random_requests(chance: random.Random, begin_ms: int = 0) -> Seen:
    """Addresses that are quick, slow, curious or not; times are often just at a limit."""
    seen: Seen = {}
    for number in range(6):
        now_ms, most_pause_ms, width = begin_ms, chance.choice([3, 40, 900]), chance.choice([3, 20, 60])
        rows = seen[f"address-{number}"] = []
        for _ in range(chance.randrange(1, 900)):
            pause = chance.choice([1999, 2000, 2001, 3999, 4000, 4001]) if chance.random() < 0.01 else None
            now_ms += chance.randrange(most_pause_ms) if pause is None else pause
            rows.append((now_ms, {f"topic-{chance.randrange(width)}"} if chance.random() < 0.3 else set()))
    return seen


class Handle:
    """What Spark gives to the detector, for one address."""

    def __init__(self) -> None:
        self.value: Any = None
        self.timers: set[int] = set()
        self.registerTimer, self.deleteTimer = self.timers.add, self.timers.discard

    def getValueState(self, name: str, schema: str) -> "Handle":
        return self

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = None


def detected(address: str, rows: list[tuple[int, set[str]]], chance: random.Random) -> Iterator[Any]:
    """What the detector finds when micro-batches divide the rows at random, and the watermark follows at random."""
    handle, detector, key = Handle(), job.Detector(), (address,)
    detector.init(handle)  # type: ignore[arg-type]
    told = [Row(time_ms=time_ms, offset=offset, topics=sorted(names)) for offset, (time_ms, names) in enumerate(rows)]
    while told:
        count = chance.choice([1, 10, 300])
        batch, told = told[:count], told[count:]
        newest_ms = batch[-1].time_ms
        chance.shuffle(batch)
        yield from detector.handleInputRows(key, iter(batch), None)
        # The watermark is behind the rows to come, unless these are the last.
        watermark_ms = min(newest_ms, told[0].time_ms - 1) - chance.choice([0, 3000]) if told else newest_ms + 10_000
        for timer_ms in sorted(each for each in handle.timers if each <= watermark_ms):
            yield from detector.handleExpiredTimer(key, None, None)
            handle.deleteTimer(timer_ms)
    assert not handle.timers
    assert handle.value is None or handle.value[3] > 0, "the state of an address that was never blocked is kept"


@pytest.mark.parametrize("seed", range(20))
def test_the_state_of_an_address_gives_the_blocks_that_its_whole_history_gives(seed: int) -> None:
    chance = random.Random(seed)
    seen = random_requests(chance)
    found = [row for address, rows in seen.items() for row in detected(address, rows, chance)]
    ended = {row[:3]: tuple(row)[:4] for row in found}  # the end of a block comes after its begin
    for address in seen:
        changes = [row.change for row in found if row.address == address]
        assert changes == list(range(1, len(changes) + 1))
    assert sorted(ended.values()) == expected_blocks(seen)


def line(time_ms: int, address: str, names: set[str]) -> bytes:
    """A request as a broker traces it."""
    body = {"topics": [{"name": name} for name in sorted(names)]}
    api = "Metadata" if names else "Produce"
    return json.dumps(
        {"kind": "request", "time_ms": time_ms, "peer": f"{address}:40001", "api": api, "body": body}
    ).encode()


@pytest.mark.scenario("records", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.long_on_kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_job_alone_finds_the_same_in_two_runs(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    """The second run begins with the blocks and the sessions that the first one has left open."""
    begin_ms = 1_700_000_000_123
    seen = random_requests(random.Random(4), begin_ms)
    rows = sorted((time_ms, address, names) for address, rows in seen.items() for time_ms, names in rows)
    lines = [(row[1].encode(), line(*row)) for row in rows]
    names = {name: f"{topic_name}-{name}" for name in ("requests", "rates", "sessions", "block-list", "dead-letters")}
    topics.create(broker.bootstrap, {names["requests"]: 3} | {names[name]: 1 for name in list(names)[1:]}, "")
    given = [word for name, topic in names.items() for word in (f"--{name}", topic)]
    half = len(lines) // 2
    end_ms = rows[-1][0] + 3_600_000
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for part in ([*lines[:half], (b"", b"no line")], [*lines[half:], (b"end", line(end_ms, "end", set()))]):
        for key, value in part:
            producer.send(names["requests"], value, key)
        producer.flush()
        with watched(submit("security", tmp_path / "job", "--bootstrap", broker.bootstrap, *given)) as run:
            run.succeed()
    producer.close()

    counts = {(each["address"], each["start_ms"]): each for each in read_spans(broker.bootstrap, names["rates"])}
    assert {place: each["requests"] for place, each in counts.items()} == expected_rates(seen)
    sessions = read_spans(broker.bootstrap, names["sessions"])
    found = {(each["address"], each["start_ms"]): (each["requests"], each["last_ms"]) for each in sessions}
    assert found == expected_sessions(seen)
    blocks = demonstration.read_blocks(broker.bootstrap, names["block-list"])
    assert [tuple(block) for block in blocks] == expected_blocks(seen)
    last = {address: until_ms for address, _, _, until_ms in expected_blocks(seen)}
    assert {address for address, until_ms in last.items() if until_ms is None} == {
        entry["address"] for entry in read_block_list(broker.bootstrap, names["block-list"]).values()
    }
    (letter,) = topics.read_all(broker.bootstrap, names["dead-letters"])
    assert (letter.value, dict(letter.headers)) == (b"no line", {"reason": b"not JSON"})


@pytest.fixture
def run(broker: Broker, topic_name: str, tmp_path: Path) -> Iterator[Any]:
    """Starts the pipeline in a process group of its own."""
    given = ("--bootstrap", broker.bootstrap, "--prefix", topic_name, "--out", str(tmp_path))
    with starter("security", *given) as begin:
        yield begin


def resume_failed(run: Any, *options: str) -> None:
    """Resumes queries that have not ended; Spark 4.1 may fail once more, after the micro-batch that it has repeated."""
    resumed = run("--resume", *options)
    told, _ = resumed.communicate(timeout=TIMEOUT_S)
    if resumed.returncode:
        assert "SPARK-55271" in told
        finished(run("--resume", *options), 0)


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
    blocks = demonstration.read_blocks(bootstrap, f"{prefix}-block-list")
    assert {(block.address, block.reason) for block in blocks} == set(CRAWLERS.items())
    assert Counter(block.address for block in blocks) == {"127.0.0.66": 2, "127.0.0.67": 1, "127.0.0.68": 1}
    for address, until_ms in ((block.address, block.until_ms) for block in blocks if block.until_ms is not None):
        assert until_ms == max(time_ms for time_ms, _ in seen[address] if time_ms < until_ms) + 4000
    assert {
        address: entry["reason"] for address, entry in read_block_list(bootstrap, f"{prefix}-block-list").items()
    } == {"127.0.0.66": "topics"}


@pytest.mark.scenario("records", client="spark")
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
    assert Counter(letter.value for letter in letters) == Counter(demonstration.BROKEN_LINES)
    assert Counter(dict(letter.headers)["reason"] for letter in letters) == {b"not JSON": 2, b"incomplete": 1}
    assert (tmp_path / "security.png").read_bytes().startswith(b"\x89PNG")

    shutil.rmtree(tmp_path / "checkpoints")
    told = finished(run("--resume"), 1)
    assert "With --starting-offsets earliest, Spark's option startingOffsets" in told


@pytest.mark.scenario("records", client="spark")
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_queries_that_are_killed_and_resumed_find_the_same_and_tell_of_lost_records(
    broker: Broker, topic_name: str, run: Any, tmp_path: Path
) -> None:
    lines = request_trace.record(SECONDS, tmp_path / "traced-broker.log")
    request_trace.write_trace(lines, tmp_path / "trace.jsonl")
    names = [f"{topic_name}-{name}" for name in ("requests", "rates", "sessions", "block-list", "dead-letters")]
    options = job.Options(broker.bootstrap, names[0], names[1], names[2], names[3], names[4])
    demonstration.create_topics(options)
    half = len(lines) // 2
    demonstration.send(options, lines[:half])
    first = run("--resume", "--rows-per-batch", "500")
    commits = tmp_path / "checkpoints" / "security" / "detection" / "commits"
    assert wait_for(lambda: commits.is_dir() and any(commits.iterdir()), TIMEOUT_S)
    kill(first)
    demonstration.send(options, [*lines[half:], demonstration.closing_line(lines)])
    resume_failed(run)
    check_exact(broker.bootstrap, topic_name, read_trace(tmp_path / "trace.jsonl"), repeats=True)

    ends = {index: extent.end for index, extent in topics.extents(broker.bootstrap, options.requests).items()}
    demonstration.send(options, lines[:100])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    gone = [
        TopicPartition(options.requests, index, extent.end)
        for index, extent in topics.extents(broker.bootstrap, options.requests).items()
    ]
    assert any(place.offset > ends[place.partition] for place in gone)
    for future in admin.delete_records(gone).values():
        future.result(30)
    told = finished(run("--resume"), 1)
    assert "With --no-fail-on-data-loss, Spark's option failOnDataLoss" in told
    resume_failed(run, "--no-fail-on-data-loss")
