"""MirrorMaker 2 from one broker to another: records, configurations and groups' offsets arrive as they are."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from compat_tests.brokers.own_broker import Mortal
from compat_tests.clients.client import Received, Sent
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.connect.workers import MirrorMaker, wait_long
from harness.java_programs import MissingToolchainError
from harness.kafkapy_process import KafkapyProcess
from harness.process import Broker
from harness.real_kafka import RealKafka

pytestmark = [pytest.mark.timeout(240), pytest.mark.together, pytest.mark.long_on_clusters]

CLIENT = "mirror-maker-{connect_version}"
START_MS = 1_700_000_000_000
PARTITIONS, RECORDS = 3, 20
"""Records of each partition."""
READ = 3
"""Records of the first partition that the group has read."""


def _sent(first: int, count: int) -> list[Sent]:
    return [
        Sent(b"%d" % number, b"k%d" % number, (("h", b"%d" % partition),), START_MS + number, partition)
        for partition in range(PARTITIONS)
        for number in range(first, first + count)
    ]


class Mirror:
    """Two brokers and MirrorMaker between them."""

    def __init__(self, version: str, source: Broker, target: Mortal, name: str) -> None:
        self.target = target
        self.topic, self.group = name, f"group-of-{name}"
        self.is_cautious = not version.startswith("2.")
        self.there, self.here = ConfluentClient(source.bootstrap), ConfluentClient(target.bootstrap)
        self.there.create_topic(name, PARTITIONS, {"retention.ms": "-1", "max.message.bytes": "123456"})
        wait_long(lambda: self.there.topics().get(name) == PARTITIONS, "the topic")
        self.there.produce(name, _sent(0, RECORDS))
        member = self.there.join(self.group, name)  # MirrorMaker leaves out groups that nobody ever joined
        wait_long(lambda: len(member.received) == PARTITIONS * RECORDS, "the records")
        member.commit()
        member.close()
        self.there.commit(self.group, name, {0: READ})
        self.process = MirrorMaker(version, source.bootstrap, target.bootstrap, topics=name, groups=self.group)

    @property
    def copy(self) -> str:
        return f"source.{self.topic}"

    def read(self, partition: int, count: int) -> list[Received]:
        wait_long(lambda: self.copy in self.here.topics(), "the copy")
        wait_long(lambda: self._end(partition) >= count, f"{count} records")
        return self.here.consume(self.copy, self._end(partition), partition=partition)

    def _end(self, partition: int) -> int:
        """The end offset of the copy; 0 while a restarted target does not lead the partition yet."""
        try:
            return self.here.watermarks(self.copy, partition)[1]
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return 0

    def check_records(self) -> None:
        for partition in range(PARTITIONS):
            wanted = [each for each in _sent(0, RECORDS) if each.partition == partition]
            assert [(each.value, each.key, each.headers, each.timestamp) for each in self.read(partition, RECORDS)] == [
                (each.value, each.key, each.headers, each.timestamp) for each in wanted
            ]

    def check_group(self) -> None:
        """The group is where it was, or where it lagged, from 3.5 on, perhaps before that, but never beyond."""
        self._wait_for_offset(1, RECORDS)
        if self.is_cautious:
            assert (self.here.committed(self.group, self.copy) or 0) <= READ
        else:
            self._wait_for_offset(0, READ)

    def _wait_for_offset(self, partition: int, offset: int) -> None:
        wait_long(
            lambda: self.here.committed(self.group, self.copy, partition) == offset,
            f"the group's offset of partition {partition}",
        )


def _mirror(version: str, source: Broker, target: Mortal, name: str) -> Mirror:
    try:
        return Mirror(version, source, target, name)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def mirror(broker: Broker, mortal: Mortal, connect_version: str, unique_name: str) -> Iterator[Mirror]:
    found = _mirror(connect_version, broker, mortal, unique_name)
    with found.process:
        yield found


@pytest.mark.scenario("records", client=CLIENT)
def test_records_arrive_as_they_are(mirror: Mirror) -> None:
    mirror.check_records()


@pytest.mark.scenario("groups", client=CLIENT)
def test_a_groups_offsets_arrive_translated(mirror: Mirror) -> None:
    mirror.check_group()


@pytest.mark.scenario("admin", client=CLIENT)
def test_configurations_and_partitions_follow(mirror: Mirror) -> None:
    wait_long(lambda: mirror.copy in mirror.here.topics(), "the copy")
    wait_long(lambda: mirror.here.configs(mirror.copy)["max.message.bytes"] == "123456", "the configuration")
    assert mirror.here.configs(mirror.copy)["retention.ms"] == "-1"
    mirror.there.add_partitions(mirror.topic, PARTITIONS + 1)
    wait_long(lambda: mirror.here.topics()[mirror.copy] == PARTITIONS + 1, "the new partition")
    assert {"heartbeats", "source.checkpoints.internal"} <= mirror.here.topics().keys()


@pytest.mark.long
@pytest.mark.differs(
    "kafka-3.9.1", reason="when a broker that is its own controller came back, nothing is copied for minutes"
)
@pytest.mark.scenario("restart", client=CLIENT)
def test_records_continue_after_a_restart_of_the_target(mirror: Mirror) -> None:
    mirror.read(0, RECORDS)
    mirror.target.stop()
    mirror.there.produce(mirror.topic, _sent(RECORDS, RECORDS))
    mirror.target.start()
    for partition in range(PARTITIONS):
        values = {each.value for each in mirror.read(partition, 2 * RECORDS)}
        assert values == {b"%d" % number for number in range(2 * RECORDS)}


@pytest.mark.long
@pytest.mark.java
@pytest.mark.scenario("records", client=CLIENT)
@pytest.mark.parametrize("way", ["to kafkapy", "from kafkapy"])
def test_records_move_between_kafka_and_kafkapy(way: str, connect_version: str, unique_name: str) -> None:
    with RealKafka("2.7.2") as real, KafkapyProcess() as ours:
        source, target = (real, ours) if way == "to kafkapy" else (ours, real)
        found = _mirror(connect_version, source, target, unique_name)
        with found.process:
            found.check_records()
            found.check_group()
