"""MirrorMaker 1 in both directions between Apache Kafka and kafkapy, and MirrorMaker 2 beside `kafkapy mirror`."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat_tests.clients.client import Sent
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.connect.workers import SOONER, START, wait_long
from harness.connect import REPLICAS, ConnectProcess
from harness.jars import JarsError, class_path
from harness.java import NoJavaError, find_java
from harness.java_programs import QUICK_START, QUIET
from harness.kafkapy_process import ROOT, KafkapyProcess, kafkapy_command
from harness.process import ChildProcess
from harness.real_kafka import RealKafka, write_properties

pytestmark = [pytest.mark.timeout(400), pytest.mark.java, pytest.mark.together]

VERSION = "2.7.2"
PARTITIONS, RECORDS = 2, 50
START_MS = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}
"""The records' timestamps are old."""
LONGEST_LOOP = re.compile(r"(east\.){2,}.*")
"""Names of topics that a loop makes."""


class MirrorMakerOne(ChildProcess):
    """`kafka.tools.MirrorMaker`: a consumer group of the source and a producer for the target; names stay the same."""

    def __init__(self, source: str, target: str, topic: str) -> None:
        super().__init__("mirrormaker-1")
        self._topic = topic
        self._jars = class_path(VERSION)
        group = {"group.id": "mirror-maker", "auto.offset.reset": "earliest", "exclude.internal.topics": "true"}
        self._files = {
            "consumer": {"bootstrap.servers": source, **group},
            "producer": {"bootstrap.servers": target, "linger.ms": "5"},
        }

    def command(self) -> list[str]:
        options = [
            word
            for name, content in self._files.items()
            for word in (f"--{name}.config", str(write_properties(self.directory / f"{name}.properties", content)))
        ]
        java = [*find_java().command, "-Xmx128M", *QUICK_START, *QUIET, "-cp", self._jars]
        return [
            *java,
            "kafka.tools.MirrorMaker",
            *options,
            "--whitelist",
            self._topic,
            "--offset.commit.interval.ms",
            "500",
        ]

    def is_ready(self) -> bool:
        """There is no interface for this: its effects are seen in the brokers."""
        return True


class OurMirror(ChildProcess):
    """`kafkapy mirror` of all topics that match a pattern."""

    def __init__(self, source: str, target: str, topics: str) -> None:
        super().__init__("mirror")
        self._words = ["--from", source, "--to", target, "--topics", topics]

    def command(self) -> list[str]:
        return [*kafkapy_command(), "mirror", *self._words]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def is_ready(self) -> bool:
        """There is no interface for this: its effects are seen in the brokers."""
        return True


class MirrorMakerTwo(ConnectProcess):
    """MirrorMaker 2 of all topics from the cluster `east` to the cluster `west`, where they get the prefix `east.`."""

    def __init__(self, east: str, west: str) -> None:
        flow = {"east->west.enabled": "true", "east->west.topics": ".*", "east->west.groups": "none"}
        clusters = {"clusters": "east,west", "east.bootstrap.servers": east, "west.bootstrap.servers": west}
        super().__init__(VERSION, "mirror.MirrorMaker", {"mirror": {**clusters, **flow, **START, **SOONER, **REPLICAS}})


def _sent(first: int, count: int) -> list[Sent]:
    return [
        Sent(b"%d" % number, b"k%d" % number, (("h", b"%d" % partition),), START_MS + number, partition)
        for partition in range(PARTITIONS)
        for number in range(first, first + count)
    ]


def _fill(broker: ChildProcess, topic: str) -> ConfluentClient:
    client = ConfluentClient(broker.bootstrap)
    client.create_topic(topic, PARTITIONS, KEPT)
    wait_long(lambda: client.topics().get(topic) == PARTITIONS, "the topic")
    client.produce(topic, _sent(0, RECORDS))
    return client


def _wait_for_records(client: ConfluentClient, topic: str, count: int) -> None:
    """Wait until so many are there, in all partitions; then check that no more than these are."""
    wait_long(lambda: topic in client.topics(), f"the topic {topic}")

    def found() -> int:
        return sum(client.watermarks(topic, partition)[1] for partition in range(client.topics()[topic]))

    wait_long(lambda: found() >= count, f"{count} records in {topic}")
    assert found() == count


@pytest.fixture(scope="module", autouse=True)
def toolchain() -> None:
    """Skip where Java or the jars of the release are missing."""
    try:
        find_java()
        class_path(VERSION)
        class_path(f"connect-{VERSION}")
    except (NoJavaError, JarsError) as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(
    "way",
    [
        "kafkapy to kafkapy",
        pytest.param("kafka to kafkapy", marks=pytest.mark.long),
        pytest.param("kafkapy to kafka", marks=pytest.mark.long),
    ],
)
def test_mirror_maker_1_copies_a_topic(way: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        kinds = way.split(" to ")
        brokers: list[ChildProcess] = [
            stack.enter_context(
                KafkapyProcess(directory=tmp_path / f"{place}")
                if kind == "kafkapy"
                else RealKafka(VERSION, directory=tmp_path / f"{place}")
            )
            for place, kind in enumerate(kinds)
        ]
        there, here = _fill(brokers[0], "copied"), ConfluentClient(brokers[1].bootstrap)
        here.create_topic("copied", PARTITIONS, KEPT)  # by itself it would have the target's default of one
        stack.enter_context(MirrorMakerOne(brokers[0].bootstrap, brokers[1].bootstrap, "copied"))
        _wait_for_records(here, "copied", PARTITIONS * RECORDS)
        wanted, found = (
            sorted(
                (each.key, each.value, each.headers, each.timestamp)
                for partition in range(PARTITIONS)
                for each in client.consume("copied", client.watermarks("copied", partition)[1], partition=partition)
            )
            for client in (there, here)
        )
        assert found == wanted
        there.produce("copied", _sent(RECORDS, RECORDS))
        _wait_for_records(here, "copied", 2 * PARTITIONS * RECORDS)
        wait_long(
            lambda: (
                [there.committed("mirror-maker", "copied", each) for each in range(PARTITIONS)]
                == [2 * RECORDS] * PARTITIONS
            ),
            "the offsets of MirrorMaker's group",
        )


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[tuple[KafkapyProcess, KafkapyProcess]]:
    with KafkapyProcess(directory=tmp_path / "east") as east, KafkapyProcess(directory=tmp_path / "west") as west:
        yield east, west


@pytest.mark.long
def test_mirror_maker_2_and_our_mirror_do_not_build_a_loop(two_brokers: tuple[KafkapyProcess, KafkapyProcess]) -> None:
    """With the pattern that docs/mirror.md names; the topics of MirrorMaker itself are copied, and nothing twice."""
    east, west = two_brokers
    in_east, in_west = _fill(east, "from-east"), _fill(west, "from-west")
    with MirrorMakerTwo(east.bootstrap, west.bootstrap), OurMirror(west.bootstrap, east.bootstrap, r"(?!east\.).*"):
        _wait_for_records(in_west, "east.from-east", PARTITIONS * RECORDS)
        _wait_for_records(in_east, "from-west", PARTITIONS * RECORDS)
        wait_long(lambda: "east.from-west" in in_west.topics(), "the copy of the copy")
        in_east.produce("from-east", _sent(RECORDS, RECORDS))
        in_west.produce("from-west", _sent(RECORDS, RECORDS))
        both = 2 * PARTITIONS * RECORDS
        _wait_for_records(in_west, "east.from-east", both)
        _wait_for_records(in_east, "from-west", both)
        _wait_for_records(in_west, "east.from-west", both)

        def names() -> set[str]:
            return in_east.topics().keys() | in_west.topics().keys()

        wait_long(lambda: "east.heartbeats" in names(), "the last topic that MirrorMaker makes")
        before, until_s = names(), time.monotonic() + 12
        while time.monotonic() < until_s:  # both look for new topics, every second and every five seconds
            assert names() == before
            time.sleep(0.5)
        assert not [name for name in before if LONGEST_LOOP.fullmatch(name)]
        assert "east.from-east" not in in_east.topics()
        for client, topic in ((in_east, "from-east"), (in_west, "from-west")):
            _wait_for_records(client, topic, both)
