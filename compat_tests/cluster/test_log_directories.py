"""Replicas move between the data directories of a broker (KIP-113): Apache Kafka's tools, restarts in the middle.

Each test runs on kafkapy and on Apache Kafka 2.7.2.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from harness.cluster import SESSION_MS, SETTINGS, Cluster, eventually
from harness.java_tools import JavaTools
from harness.kafkapy_process import KafkapyProcess
from harness.process import ChildProcess
from harness.real_kafka import RealKafka, ZooKeeper
from harness.wire import Wire
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

TOOLS = JavaTools("2.7.2")
KINDS = ["kafkapy", pytest.param("kafka-2.7.2", marks=pytest.mark.long)]
BROKER = 4
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
VALUES = [b"%04d" % number + bytes(1000) for number in range(2000)]


class Home(NamedTuple):
    """Where a partition is: the directory's name, whether it is a future replica, its lag."""

    directory: str
    is_future: bool
    lag: int


class Directories:
    """A broker's two data directories, and the processes that use them one after the other."""

    def __init__(self, cluster: Cluster, broker_id: int, path: Path) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.path = path

    @property
    def broker(self) -> ChildProcess:
        return self.cluster.brokers[self.broker_id]

    def at(self, name: str) -> str:
        return str(self.path / name)

    def process(self, kind: str) -> ChildProcess:
        """A process of this kind on the directories, not started."""
        config = {
            **self.cluster.config,
            "broker.id": str(self.broker_id),
            "log.dirs": f"{self.at('a')},{self.at('b')}",
            "replica.fetch.max.bytes": "65536",
            "log.segment.delete.delay.ms": "1000",
        }
        if kind == "kafkapy":
            return KafkapyProcess(config=config)
        zookeeper = ZooKeeper("2.7.2")
        return RealKafka("2.7.2", zookeeper=zookeeper, broker_id=self.broker_id, config=config)

    def homes(self, topic: str, index: int = 0) -> list[Home]:
        with Wire(self.broker.bootstrap) as wire:
            answer = wire.ask(DescribeLogDirsRequest(None), 2)
        return sorted(
            Home(Path(result.log_dir).name, partition.is_future_key, partition.offset_lag)
            for result in answer.results
            for found in result.topics
            for partition in found.partitions
            if (found.name, partition.partition_index) == (topic, index)
        )

    def is_at(self, topic: str, name: str) -> bool:
        return self.homes(topic) == [Home(name, False, 0)]

    def move(self, topic: str, name: str, *, version: int = 1) -> int:
        """Ask for a move of partition 0; return the error."""
        return self.alter([(self.at(name), topic, [0])], version=version)[topic, 0]

    def alter(self, wanted: Sequence[tuple[str, str, list[int]]], *, version: int = 1) -> dict[tuple[str, int], int]:
        request = AlterReplicaLogDirsRequest(
            [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, indexes)]) for path, topic, indexes in wanted]
        )
        with Wire(self.broker.bootstrap) as wire:
            answer = wire.ask(request, version)
        rows = [(topic.topic_name, row) for topic in answer.results for row in topic.partitions]
        assert len(rows) == len({(name, row.partition_index) for name, row in rows})
        return {(name, row.partition_index): row.error_code for name, row in rows}

    def limit(self, bytes_per_second: int | None) -> None:
        """Set or remove the limit of moves."""
        operation = 1 if bytes_per_second is None else 0
        config = AlterableConfig(THROTTLE, operation, None if bytes_per_second is None else str(bytes_per_second))
        resource = AlterConfigsResource(BROKER, str(self.broker_id), [config])
        with Wire(self.broker.bootstrap) as wire:
            assert wire.ask(IncrementalAlterConfigsRequest([resource]), 0).responses[0].error_code == 0

    def hold_up(self) -> None:
        """Limit moves to 1 kB/s, and return when the limit is in effect: brokers learn of it some time later."""
        self.limit(1000)
        other = fill(self, "probe")
        eventually(lambda: self._is_held_up("probe", other))
        for name in "ab":
            self.move("probe", name)
        eventually(lambda: not any(home.is_future for home in self.homes("probe")))

    def _is_held_up(self, topic: str, name: str) -> bool:
        if self.is_at(topic, name):
            self.move(topic, "a" if name == "b" else "b")
            return False
        self.move(topic, name)
        time.sleep(0.5)
        return any(home.is_future for home in self.homes(topic))

    def folders(self, name: str) -> list[str]:
        return sorted(each.name.split(".")[0] for each in (self.path / name).iterdir() if each.is_dir())


@contextmanager
def started(zookeeper: ZooKeeper, path: Path, kinds: Mapping[int, str]) -> Iterator[dict[int, Directories]]:
    cluster = Cluster(zookeeper, 0)
    config = {**SETTINGS, "zookeeper.connect": cluster.zookeeper_connect}
    cluster.config = {**config, "zookeeper.session.timeout.ms": str(SESSION_MS)}
    made = {number: Directories(cluster, number, path / str(number)) for number in kinds}
    cluster.brokers = {number: made[number].process(kind) for number, kind in kinds.items()}
    with cluster:
        yield made


@pytest.fixture(params=KINDS)
def directories(zookeeper: ZooKeeper, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Directories]:
    with started(zookeeper, tmp_path, {1: request.param}) as made:
        yield made[1]


def fill(directories: Directories, topic: str) -> str:
    """A topic with records; return the other directory than its own."""
    directories.cluster.create(1, topic, 1)
    # Small batches, since Apache Kafka reads at least one of them as soon as the rate is below the limit.
    producer = Producer({"bootstrap.servers": directories.broker.bootstrap, "batch.size": 16384, "log_level": 0})
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    return "a" if directories.is_at(topic, "b") else "b"


def values(directories: Directories, topic: str, count: int = len(VALUES)) -> list[bytes]:
    return directories.cluster.consume(1, topic, [0], count)


@pytest.mark.parametrize("version", [0, 1])
def test_a_move(directories: Directories, version: int) -> None:
    other = fill(directories, "t")
    assert directories.move("t", other, version=version) == 0
    eventually(lambda: directories.is_at("t", other))
    assert values(directories, "t") == VALUES
    eventually(lambda: directories.folders("a" if other == "b" else "b").count("t-0") == 0)
    directories.cluster.produce(1, "t", [b"more"], [0])
    assert values(directories, "t", 2001) == sorted([*VALUES, b"more"])


def test_answers(directories: Directories) -> None:
    other = fill(directories, "t")
    a, b = directories.at("a"), directories.at("b")
    expected = {
        a + "/": ErrorCode.LOG_DIR_NOT_FOUND,
        a + "/../a": ErrorCode.LOG_DIR_NOT_FOUND,
        "a": ErrorCode.LOG_DIR_NOT_FOUND,
        "": ErrorCode.LOG_DIR_NOT_FOUND,
        "/": ErrorCode.LOG_DIR_NOT_FOUND,
        a + "\0": ErrorCode.LOG_DIR_NOT_FOUND,
        a: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for path, code in expected.items():
        assert directories.alter([(path, "unknown", [0, -1])]) == {("unknown", 0): code, ("unknown", -1): code}
    long, longest = "t" * 214, "t" * 213
    assert directories.alter([(a, long, [0])]) == {(long, 0): ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert directories.alter([("nowhere", long, [0])]) == {(long, 0): ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert directories.alter([(a, longest, [0])]) == {(longest, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert directories.alter([]) == {}
    assert directories.alter([(a, "", [0])]) == {("", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert directories.alter([(a, "t", [0, 1])]) == {("t", 0): 0, ("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    eventually(lambda: directories.is_at("t", "a"))
    # the last mention of a partition counts
    assert directories.alter([(a, "t", [0]), (b, "t", [0])]) == {("t", 0): 0}
    eventually(lambda: directories.is_at("t", "b"))
    assert directories.alter([(b, "t", [0]), ("nowhere", "t", [0])]) == {("t", 0): ErrorCode.LOG_DIR_NOT_FOUND}
    assert directories.alter([(a, "t", [0] * 10_000)]) == {("t", 0): 0}
    eventually(lambda: directories.is_at("t", "a"))
    assert other in ("a", "b")
    assert values(directories, "t") == VALUES


def test_a_topic_is_created_in_the_directory_that_was_asked_for(directories: Directories) -> None:
    for name in ("later-a", "later-b"):
        assert directories.move(name, name[-1]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    directories.move("both", "a")
    directories.move("both", "b")
    for name in ("later-a", "later-b", "both"):
        directories.cluster.create(1, name, 1)
        assert directories.is_at(name, name[-1] if name != "both" else "b")


def test_a_move_in_progress_is_shown_and_ended_by_the_present_directory(directories: Directories) -> None:
    other = fill(directories, "t")
    present = "a" if other == "b" else "b"
    directories.hold_up()
    assert directories.move("t", other) == 0
    eventually(lambda: any(home.is_future and 0 < home.lag < 2000 for home in directories.homes("t")))
    homes = {home.is_future: home for home in directories.homes("t")}
    assert (homes[False], homes[True].directory) == (Home(present, False, 0), other)
    assert directories.move("t", other) == 0
    assert directories.move("t", present) == 0
    assert directories.is_at("t", present)
    eventually(lambda: "t-0" not in directories.folders(other))
    directories.limit(None)
    assert directories.move("t", other) == 0
    eventually(lambda: directories.is_at("t", other))
    assert values(directories, "t") == VALUES


def test_a_deleted_topic_takes_its_copy_along(directories: Directories) -> None:
    other = fill(directories, "t")
    directories.hold_up()
    assert directories.move("t", other) == 0
    admin = directories.cluster.admin(1)  # its answers end with it
    (deleted,) = admin.delete_topics(["t"]).values()
    deleted.result(30)
    eventually(lambda: directories.homes("t") == [])
    eventually(lambda: directories.folders("a") + directories.folders("b") == ["probe-0"])


def test_the_tools(directories: Directories, tmp_path: Path) -> None:
    other = fill(directories, "t")
    directories.hold_up()
    server = ("--bootstrap-server", directories.broker.bootstrap)
    path = tmp_path / "moves.json"
    move = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [directories.at(other)]}
    path.write_text(json.dumps({"version": 1, "partitions": [move]}))
    command = (*server, "--reassignment-json-file", str(path))
    shown = TOOLS.run("ReassignPartitionsCommand", *command, "--execute", "--replica-alter-log-dirs-throttle", "1000")
    assert "Successfully started log directory move for: t-0-1" in shown

    def described() -> list[dict[str, Any]]:
        shown = TOOLS.run("LogDirsCommand", *server, "--describe", "--topic-list", "t").splitlines()
        (broker,) = json.loads(shown[-1])["brokers"]
        found = {Path(each["logDir"]).name: each for each in broker["logDirs"]}
        assert [each["error"] for each in found.values()] == [None, None]
        rows = found[other]["partitions"]
        assert [row["partition"] for row in rows] == ["t-0"]
        return rows  # type: ignore[no-any-return]  # of JSON

    (row,) = described()
    assert row["isFuture"] is True
    assert 0 < row["offsetLag"] <= 2000
    # without --preserve-throttles the verification would wait, and the throttle is what holds the move up
    verify = ("ReassignPartitionsCommand", *command, "--verify", "--preserve-throttles")
    assert "Reassignment of replica t-0-1 is still in progress." in TOOLS.run(*verify)
    directories.limit(None)
    eventually(lambda: directories.is_at("t", other))
    assert "Reassignment of replica t-0-1 completed successfully." in TOOLS.run(*verify)
    (row,) = described()
    assert (row["isFuture"], row["offsetLag"]) == (False, 0)
    assert values(directories, "t") == VALUES


@pytest.mark.parametrize(
    "kinds",
    [
        ["kafkapy"] * 3,
        pytest.param(["kafka-2.7.2"] * 3, marks=pytest.mark.long),
        pytest.param(["kafka-2.7.2", "kafkapy", "kafkapy"], marks=pytest.mark.long),
    ],
)
def test_the_tool_moves_replicas_to_chosen_directories_of_other_brokers(
    zookeeper: ZooKeeper, tmp_path: Path, kinds: list[str]
) -> None:
    with started(zookeeper, tmp_path, dict(enumerate(kinds, start=1))) as brokers:
        cluster = brokers[1].cluster
        where = ("--zookeeper", cluster.zookeeper_connect, "--topic", "t")
        TOOLS.run("TopicCommand", "--create", *where, "--replica-assignment", "1,1")
        eventually(lambda: all(len(cluster.led(number, "t")) == 2 for number in brokers))
        cluster.produce(1, "t", VALUES, [0, 1])
        assert brokers[2].move("t", "b") == ErrorCode.REPLICA_NOT_AVAILABLE

        def paths(name: str) -> list[str]:
            return [brokers[2].at(name), brokers[3].at(name)]

        moves = [
            {
                "topic": "t",
                "partition": index,
                "replicas": [2, 3],
                "log_dirs": paths(name),
            }
            for index, name in enumerate("ba")
        ]
        path = tmp_path / "moves.json"
        path.write_text(json.dumps({"version": 1, "partitions": moves}))
        server = ("--bootstrap-server", brokers[1].broker.bootstrap)
        command = ("ReassignPartitionsCommand", *server, "--reassignment-json-file", str(path))
        TOOLS.run(*command, "--execute")
        for number in (2, 3):
            directories = brokers[number]
            eventually(lambda directories=directories: directories.homes("t", 0) == [Home("b", False, 0)])  # type: ignore[misc]
            eventually(lambda directories=directories: directories.homes("t", 1) == [Home("a", False, 0)])  # type: ignore[misc]
        eventually(lambda: set(cluster.leaders(1, "t").values()) == {2})
        # the other way around, within each broker, while they follow and lead
        moves = [{**move, "log_dirs": paths(name)} for move, name in zip(moves, "ab", strict=True)]
        path.write_text(json.dumps({"version": 1, "partitions": moves}))
        TOOLS.run(*command, "--execute")
        for number in (2, 3):
            directories = brokers[number]
            eventually(lambda directories=directories: directories.homes("t", 0) == [Home("a", False, 0)])  # type: ignore[misc]
            eventually(lambda directories=directories: directories.homes("t", 1) == [Home("b", False, 0)])  # type: ignore[misc]
        cluster.produce(1, "t", [b"more"] * 2, [0, 1])
        assert cluster.consume(3, "t", [0, 1], 2002) == sorted([*VALUES, b"more", b"more"])
        shown = TOOLS.run(*command, "--verify")
        assert shown.count("completed successfully") == 4


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_move_goes_on_after_a_restart(
    zookeeper: ZooKeeper, tmp_path: Path, first: str, second: str, end: str
) -> None:
    """The directories go from one kind of broker to the other and back, with a copy in the middle."""
    with started(zookeeper, tmp_path, {1: first}) as made:
        directories = made[1]
        other = fill(directories, "t")
        directories.hold_up()
        assert directories.move("t", other) == 0
        eventually(lambda: any(home.is_future and 0 < home.lag < 2000 for home in directories.homes("t")))
        directories.cluster.produce(1, "t", [b"more"], [0])
        getattr(directories.broker, end)()
        if end == "kill":  # 2.7.2 does not start while the registration of the killed broker is there
            eventually(lambda: directories.cluster.node("/brokers/ids/1") is None)
        before = directories.broker
        directories.cluster.brokers[1] = directories.process(second)
        before.close()
        directories.broker.start()
        eventually(lambda: len(directories.cluster.led(1, "t")) == 1)
        if second == "kafkapy":  # 2.7.2 begins to copy before it knows of the limit
            assert [home.is_future for home in directories.homes("t")].count(True) == 1
        assert values(directories, "t", 2001) == sorted([*VALUES, b"more"])
        directories.limit(None)
        eventually(lambda: directories.is_at("t", other))
        directories.cluster.produce(1, "t", [b"last"], [0])
        assert values(directories, "t", 2002) == sorted([*VALUES, b"more", b"last"])
