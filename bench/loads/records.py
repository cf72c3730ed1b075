"""Batches of many records, written and read by Kafka's own tools and by librdkafka."""

import json
from dataclasses import dataclass
from pathlib import Path

from bench.brokers.contestants import Arena, Contestant
from bench.loads.load import MANY, Metrics, python_client, run_child
from bench.loads.workloads import Workload, write_payload
from harness.java_tools import JavaTools
from harness.measure import LoadError, Meter
from harness.real_kafka import write_properties

TOOLS = "3.9.1"
CLIENT_HEAP = "512M"
CODEC_ROUNDS = 2


def _measured(meter: Meter, gigabytes: float) -> Metrics:
    return {
        "s_per_gb": meter.processor_s / gigabytes,
        "mb_per_s": 1000 * gigabytes / meter.wall_s,
        "wall_s": meter.wall_s,
        "user_s": meter.user_s,
        "system_s": meter.system_s,
    }


def _payload(contestant: Contestant, workload: Workload) -> Path | None:
    if workload.codec == "none":
        return None
    size = workload.record_size
    return write_payload(contestant.scratch / f"payload-{size}.txt", size)


def _properties(contestant: Contestant) -> Path:
    """A file with what Kafka's tools need to put a load on the broker."""
    return write_properties(contestant.scratch / f"{contestant.name}.properties", contestant.java_properties)


def java_producer(
    bootstrap: str,
    topic: str,
    workload: Workload,
    records: int,
    *,
    acks: str = "1",
    payload: Path | None = None,
    config: Path | None = None,
) -> None:
    """Produces so many records with Kafka's tool, whose random letters are the records unless there is a payload."""
    options = ["--topic", topic, "--num-records", str(records), "--throughput", "-1"]
    options += ["--payload-file", str(payload)] if payload else ["--record-size", str(workload.record_size)]
    options += ["--producer.config", str(config)] if config else []
    properties = [
        f"bootstrap.servers={bootstrap}",
        f"acks={acks}",
        f"batch.size={workload.batch_size}",
        f"linger.ms={workload.linger_ms}",
        f"compression.type={workload.codec}",
    ]
    tool = JavaTools(TOOLS).command("ProducerPerformance", *options, "--producer-props", *properties, heap=CLIENT_HEAP)
    run_child(tool, "ProducerPerformance")


@dataclass(frozen=True)
class Produce:
    """Produces a workload, acks=1, to the one partition of its topic."""

    client: str
    workload: Workload
    warm_ups = 1

    @property
    def most_rounds(self) -> int:
        return CODEC_ROUNDS if self.workload.codec != "none" else MANY

    @property
    def topic(self) -> str:
        return f"{self.client}-{self.workload.name}"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        return self.produce(contestant, self.workload.records)

    def produce(self, contestant: Contestant, records: int) -> Metrics:
        """Produces so many records and compares the log's end with the acknowledgements."""
        contestant.ensure_topic(self.topic)
        payload = _payload(contestant, self.workload)
        with Meter(contestant.pid) as meter:
            if self.client == "java":
                config, bootstrap = _properties(contestant), contestant.java_properties["bootstrap.servers"]
                java_producer(bootstrap, self.topic, self.workload, records, payload=payload, config=config)
            else:
                self._librdkafka(contestant, records, payload)
        contestant.check_records(self.topic, records)
        return _measured(meter, self.workload.gigabytes(records))

    def _librdkafka(self, contestant: Contestant, records: int, payload: Path | None) -> None:
        options = {
            "settings": contestant.client_settings,
            "topic": self.topic,
            "records": records,
            "record_size": self.workload.record_size,
            "batch_size": self.workload.batch_size,
            "linger_ms": self.workload.linger_ms,
            "codec": self.workload.codec,
            "payload": str(payload) if payload else None,
        }
        python_client("bench.clients.librdkafka", "produce", json.dumps(options))


@dataclass(frozen=True)
class Fetch:
    """Reads `records` records that the same client produced, from the start; produces the missing ones first."""

    client: str
    workload: Workload
    records: int
    warm_ups = 0

    @property
    def most_rounds(self) -> int:
        return CODEC_ROUNDS if self.workload.codec != "none" else MANY

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        produce = Produce(self.client, self.workload)
        contestant.ensure_topic(produce.topic)
        missing = self.records - contestant.records[produce.topic]
        if missing > 0:
            produce.produce(contestant, missing)
        with Meter(contestant.pid) as meter:
            if self.client == "java":
                self._java(contestant, produce.topic)
            else:
                options: dict[str, object] = {"settings": contestant.client_settings}
                options |= {"topic": produce.topic, "records": self.records}
                python_client("bench.clients.librdkafka", "fetch", json.dumps(options))
        return _measured(meter, self.workload.gigabytes(self.records))

    def _java(self, contestant: Contestant, topic: str) -> None:
        where = ["--bootstrap-server", contestant.java_properties["bootstrap.servers"], "--topic", topic]
        where += ["--consumer.config", str(_properties(contestant))]
        options = [*where, "--messages", str(self.records), "--timeout", "20000", "--hide-header"]
        output = run_child(
            JavaTools(TOOLS).command("ConsumerPerformance", *options, heap=CLIENT_HEAP), "ConsumerPerformance"
        )
        read = int(output.strip().splitlines()[-1].split(",")[4])
        if read < self.records:
            raise LoadError(f"ConsumerPerformance read {read} of {self.records} records")


@dataclass(frozen=True)
class ProduceThenFetch:
    """Produces a workload and reads it once: the metrics of both, their names with `produce_` and `fetch_` before."""

    client: str
    workload: Workload
    warm_ups = 0
    most_rounds = MANY

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        produced = Produce(self.client, self.workload).run(contestant, arena)
        fetched = Fetch(self.client, self.workload, self.workload.records).run(contestant, arena)
        return {
            **{f"produce_{name}": value for name, value in produced.items()},
            **{f"fetch_{name}": value for name, value in fetched.items()},
        }
