"""The loads of a broker, one small class each: `run` runs the load once and returns its cost, by the metric's name."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from bench.brokers import Arena, Contestant
from bench.workloads import Workload, write_payload
from harness.java_tools import JavaTools
from harness.measure import LoadError, Meter

ROOT = Path(__file__).resolve().parent.parent
TOOLS = "3.9.1"
TIMEOUT_S = 240.0
CLIENT_HEAP = "512M"

MANY = 100
CODEC_ROUNDS = 2

Metrics = dict[str, float]


class Load(Protocol):
    """Work that takes processor time of a broker."""

    @property
    def warm_ups(self) -> int:
        """The number of unmeasured runs, in addition to the brokers' warm-up."""
        ...

    @property
    def most_rounds(self) -> int:
        """The number of measured runs that is enough."""
        ...

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        """Runs the load once; raises LoadError if it failed and BrokerGoneError if the broker ended."""
        ...


@runtime_checkable
class ClusterLoad(Load, Protocol):
    """A load that starts several brokers itself, of those kinds that it compares."""

    @property
    def compared(self) -> Sequence[str]:
        """The kinds of brokers."""
        ...


@runtime_checkable
class SettlingLoad(Load, Protocol):
    """A load that is run until it gets no cheaper, and measured then."""

    @property
    def settles_in(self) -> int:
        """The number of runs after which it is measured in any case."""
        ...

    @property
    def cost(self) -> str:
        """The metric that falls."""
        ...


def run_child(command: list[str], what: str, timeout_s: float = TIMEOUT_S) -> str:
    """Runs a client to its end, bounded in time; its output. Raises LoadError with the last line it wrote."""
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        raise LoadError(f"{what} took more than {timeout_s:.0f} s") from None
    if run.returncode != 0:
        lines = (run.stderr or run.stdout).strip().splitlines() or ["without a word"]
        raise LoadError(f"{what} failed: {lines[-1]}")
    return run.stdout


def python_client(module: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> Metrics:
    """Runs one of the client modules in a process of its own."""
    output = run_child([sys.executable, "-m", module, *arguments], " ".join([module, *arguments[:-1]]), timeout_s)
    answer: Metrics = json.loads(output.splitlines()[-1])
    return answer


class Floor:
    """A running server of nothing but the answers: a module that prints its port, and ends with its input."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> "Floor":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


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


def java_producer(
    bootstrap: str, topic: str, workload: Workload, records: int, *, acks: str = "1", payload: Path | None = None
) -> None:
    """Produces so many records with Kafka's tool, whose random letters are the records unless there is a payload."""
    options = ["--topic", topic, "--num-records", str(records), "--throughput", "-1"]
    options += ["--payload-file", str(payload)] if payload else ["--record-size", str(workload.record_size)]
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
                java_producer(contestant.bootstrap, self.topic, self.workload, records, payload=payload)
            else:
                self._librdkafka(contestant, records, payload)
        contestant.check_records(self.topic, records)
        return _measured(meter, self.workload.gigabytes(records))

    def _librdkafka(self, contestant: Contestant, records: int, payload: Path | None) -> None:
        options = {
            "bootstrap": contestant.bootstrap,
            "topic": self.topic,
            "records": records,
            "record_size": self.workload.record_size,
            "batch_size": self.workload.batch_size,
            "linger_ms": self.workload.linger_ms,
            "codec": self.workload.codec,
            "payload": str(payload) if payload else None,
        }
        python_client("bench.librdkafka_client", "produce", json.dumps(options))


@dataclass(frozen=True)
class Fetch:
    """Reads `records` records of what the same client produced, from the start; produces what is missing first."""

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
                options = {"bootstrap": contestant.bootstrap, "topic": produce.topic, "records": self.records}
                python_client("bench.librdkafka_client", "fetch", json.dumps(options))
        return _measured(meter, self.workload.gigabytes(self.records))

    def _java(self, contestant: Contestant, topic: str) -> None:
        where = ["--bootstrap-server", contestant.bootstrap, "--topic", topic]
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


@dataclass(frozen=True)
class SingleRecords:
    """Produce requests of one record each, one in flight on each connection, ready-made frames."""

    connections: int
    requests: int
    topic: str = "single"
    warm_ups = 0
    most_rounds = MANY

    def config(self, contestant: Contestant) -> dict[str, str]:
        """The topic's settings."""
        return {}

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic, self.config(contestant))
        options = {"port": contestant.port, "topic": self.topic}
        options |= {"connections": self.connections, "requests": self.requests}
        with Meter(contestant.pid) as meter:
            metrics = python_client("bench.raw_client", json.dumps(options))
        contestant.check_records(self.topic, self.requests)
        return {**metrics, "us_per_request": 1e6 * meter.processor_s / self.requests, "wall_s": meter.wall_s}


@dataclass(frozen=True)
class Latency:
    """Records of 1 kB at a fixed rate, acks=all, as librdkafka saw them acknowledged."""

    rate: int
    seconds: int
    warm_ups = 0
    most_rounds = MANY
    topic = "latency"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic)
        options = {"bootstrap": contestant.bootstrap, "topic": self.topic, "record_size": 1000}
        options |= {"rate": self.rate, "seconds": self.seconds}
        with Meter(contestant.pid) as meter:
            metrics = python_client("bench.librdkafka_client", "latency", json.dumps(options))
        contestant.check_records(self.topic, int(metrics["records"]))
        return {**metrics, "us_per_request": 1e6 * meter.processor_s / metrics["records"]}
