"""One data directory, one address and one cluster for the two brokers, which run there in turn."""

import subprocess
import time
from pathlib import Path

from confluent_kafka import KafkaException
from kazoo.client import KazooClient

from compat_tests.exchange.contents import partitions
from harness.kafkapy_process import KafkapyProcess, kafkapy_command
from harness.process import ChildProcess
from harness.real_kafka import RealKafka, ZooKeeper, write_properties

SESSION_MS = 18000  # of a broker that may be starved; a killed one's is ended by hand
BROKER_ID = 7
# Small segments, a cleaner that does not wait, and records that stay however old they are, on both sides.
SETTINGS = {
    "broker.id": str(BROKER_ID),
    "log.segment.bytes": "16384",
    "log.cleaner.backoff.ms": "200",
    "log.retention.ms": "-1",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
}


class Home:
    """A broker's two data directories, which move between kafkapy and Apache Kafka 2.7.2 as it restarts."""

    def __init__(self, directory: Path, zookeeper: ZooKeeper) -> None:
        self.zookeeper_address = f"{zookeeper.bootstrap}/{directory.name}"
        self.data = [directory / "disk1", directory / "disk2"]
        settings = {**SETTINGS, "log.dirs": ",".join(map(str, self.data))}
        self.ours = KafkapyProcess(directory=directory / "kafkapy", config=settings)
        self._properties = write_properties(self.ours.directory / "server.properties", settings)
        self.theirs = RealKafka(
            "2.7.2",
            directory=directory / "kafka",
            zookeeper=zookeeper,
            heap="256M",
            broker_id=BROKER_ID,
            config={
                **settings,
                "zookeeper.connect": self.zookeeper_address,
                "zookeeper.session.timeout.ms": str(SESSION_MS),
            },
        )
        self.theirs.port = self.ours.port
        self.bootstrap = self.ours.bootstrap
        self._running: ChildProcess | None = None
        self._led: set[tuple[str, int]] = set()

    def start(self, broker: ChildProcess) -> None:
        """Start a broker; partitions that had leaders before have leaders again when this returns."""
        self._running = broker.start()
        deadline = time.monotonic() + 60
        while not self._led <= self._served():
            assert time.monotonic() < deadline, broker.log_tail()
            time.sleep(0.05)

    def _served(self) -> set[tuple[str, int]]:
        try:
            return set(partitions(self.bootstrap, internal=True))
        except KafkaException:
            return set()  # it answers before it knows of its topics

    def leave(self, *, kill: bool = False) -> None:
        """Stop or kill the running broker."""
        running, self._running = self._running, None
        if running is not None:
            self._led = set(partitions(self.bootstrap, internal=True))
            running.kill() if kill else running.stop()
            if kill and running is self.theirs:
                self._end_session()

    def _end_session(self) -> None:
        """Delete the ephemeral nodes of a killed broker now, as ZooKeeper does after the session's time-out."""
        client = KazooClient(hosts=self.zookeeper_address)
        client.start()
        for path in (f"/brokers/ids/{BROKER_ID}", "/controller"):
            client.delete(path)
        client.stop()
        client.close()

    def to_kafka(self, *, kill: bool = False) -> None:
        """Stop kafkapy, export its metadata to ZooKeeper, start Apache Kafka on the same directory."""
        self.leave(kill=kill)
        self.metadata("export", "--overwrite")
        self.start(self.theirs)

    def to_kafkapy(self, *, kill: bool = False) -> None:
        """Stop Apache Kafka, import the metadata from ZooKeeper, start kafkapy."""
        self.leave(kill=kill)
        self.metadata("import", "--overwrite")
        self.start(self.ours)

    def metadata(self, way: str, *options: str) -> str:
        """``kafkapy metadata``; its output."""
        command = [*kafkapy_command(), "metadata", way, "--config", str(self._properties)]
        command += ["--zookeeper", self.zookeeper_address, *options]
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, env=self.ours.environment(), timeout=60
        )
        assert run.returncode == 0, run.stderr
        assert "warning" not in run.stderr, run.stderr
        return run.stdout

    def close(self) -> None:
        """Stop the broker and remove the directories."""
        self.ours.close()
        self.theirs.close()
