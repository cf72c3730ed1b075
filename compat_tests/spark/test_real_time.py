"""Each flight is flagged as it must be, in micro-batches and, where PySpark has it, in real-time mode."""

import json
from pathlib import Path

import pytest
from kafka import KafkaProducer

from compat_tests.spark.runs import TIMEOUT_S, pipeline, submit, watched
from harness.process import Broker

pyspark = pytest.importorskip("pyspark", reason="comes with the spark extra")

from spark_examples.common import topics  # noqa: E402 - it is of the spark extra
from spark_examples.data.flights import Flight  # noqa: E402

HAS_REAL_TIME = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
WHY_NOT = "the pinned Spark has no real-time trigger in Python"
DELAYS = (None, -5, 0, 59, 60, 61, 300)
BROKEN = (b"no flight", b'{"origin": "JFK"}')


def is_late(delay: int | None) -> bool:
    return delay is not None and delay >= 60


@pytest.mark.scenario("records", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.long_on_kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "trigger",
    [
        "micro-batch",
        pytest.param("real-time", marks=[pytest.mark.long, pytest.mark.skipif(not HAS_REAL_TIME, reason=WHY_NOT)]),
    ],
)
def test_the_job_alone_flags_each_flight(trigger: str, broker: Broker, topic_name: str, tmp_path: Path) -> None:
    flagged, letters = f"{topic_name}-flagged", f"{topic_name}-letters"
    topics.create(broker.bootstrap, {topic_name: 2, flagged: 1, letters: 1}, "")
    flights = [Flight("JFK", 1000 * n, DELAYS[n % len(DELAYS)], None, "AA", n, "LAX") for n in range(200)]
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)

    def send(rows: list[Flight]) -> None:
        for flight in rows:
            producer.send(topic_name, flight.to_json(), flight.carrier.encode(), partition=flight.number % 2)
        producer.flush()

    def written() -> bool:
        return topics.held(broker.bootstrap, flagged) + topics.held(broker.bootstrap, letters) >= sent

    given = ("--bootstrap", broker.bootstrap, "--topic", topic_name, "--flagged", flagged, "--dead-letters", letters)
    with watched(submit("real_time", tmp_path / "job", *given, "--trigger", trigger)) as run:
        send(flights[:100])
        places = [producer.send(topic_name, value).get(30) for value in BROKEN]
        sent = 100 + len(BROKEN)
        run.wait_until(written, "the first half of the flights", 0.5)
        send(flights[100:])
        sent = 200 + len(BROKEN)
        run.wait_until(written, "all flights", 0.5)
    producer.close()

    inputs = {
        f"{each.topic}/{each.partition}/{each.offset}": each for each in topics.read_all(broker.bootstrap, topic_name)
    }
    found = {}
    for record in topics.read_all(broker.bootstrap, flagged):
        place = dict(record.headers)["place"].decode()
        flight, value = json.loads(inputs[place].value), json.loads(record.value)
        assert record.key == inputs[place].key == b"AA"
        shown = {name: value.get(name) for name in ("origin", "scheduled_ms", "dep_delay", "number", "destination")}
        assert shown == {name: flight[name] for name in shown}
        assert value["late"] is is_late(flight["dep_delay"])
        found[place] = value["number"]
    assert sorted(found.values()) == list(range(200))
    dead = {
        record.key.decode(): (record.value, dict(record.headers)["reason"])
        for record in topics.read_all(broker.bootstrap, letters)
    }
    right = {
        f"{topic_name}/{at.partition}/{at.offset}": (value, b"no flight")
        for at, value in zip(places, BROKEN, strict=True)
    }
    assert dead == right


@pytest.mark.scenario("records", client="spark")
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not HAS_REAL_TIME, reason=WHY_NOT)
def test_real_time_mode_is_quicker_than_micro_batches(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    options = ("--bootstrap", broker.bootstrap, "--out", str(tmp_path), "--prefix", topic_name, "--seconds", "10")
    with pipeline("real_time", *options) as run:
        told = run.succeed(TIMEOUT_S)
    assert told.count("1,100 flights, each as it must be") == 2
    assert (tmp_path / "real_time.png").read_bytes().startswith(b"\x89PNG")
    medians = {}
    for trigger in ("micro-batch", "real-time"):
        records = topics.read_all(broker.bootstrap, f"{topic_name}-{trigger}-flagged")
        sent_ms = {
            f"{each.topic}/{each.partition}/{each.offset}": each.timestamp
            for each in topics.read_all(broker.bootstrap, f"{topic_name}-{trigger}-flights")
        }
        took = sorted(record.timestamp - sent_ms[dict(record.headers)["place"].decode()] for record in records)
        medians[trigger] = took[len(took) // 2]
    assert medians["real-time"] < medians["micro-batch"]


@pytest.mark.spark
@pytest.mark.skipif(HAS_REAL_TIME, reason="this PySpark has real-time mode")
def test_without_real_time_mode_a_sentence_says_what_to_do(tmp_path: Path) -> None:
    with pipeline("real_time", "--out", str(tmp_path)) as run:
        assert run.end() == 1
    assert "`make spark NAME=real_time` sets up an environment with PySpark 4.2" in " ".join(run.told.split())
