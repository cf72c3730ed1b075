"""The commands for several brokers, on three kafkapy brokers and on three of Apache Kafka 2.7.2."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic

from harness.cluster import SESSION_MS, WAIT_S, Cluster, eventually
from harness.java_tools import JavaTools
from harness.kafkapy_process import kafkapy_command
from harness.real_kafka import RealKafka, ZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

RACKS = {1: "a", 2: "b", 3: "a"}
TOOLS = JavaTools("2.7.2")


@pytest.fixture(scope="module", params=["kafkapy", pytest.param("kafka-2.7.2", marks=pytest.mark.long)])
def cluster(zookeeper: ZooKeeper, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Brokers 1 and 3 in rack a, broker 2 in rack b; leaders stay where they are unless a test moves them."""
    cluster = Cluster(zookeeper, 0, {"auto.leader.rebalance.enable": "false"})
    for number, rack in RACKS.items():
        # Broker 3 is stopped for some commands and must stay registered meanwhile.
        session_ms = 3 * SESSION_MS if number == 3 else SESSION_MS
        config = {**cluster.config, "broker.rack": rack, "zookeeper.session.timeout.ms": str(session_ms)}
        if request.param == "kafkapy":
            cluster.brokers[number] = cluster.new_broker(number, **config)
        else:
            cluster.brokers[number] = RealKafka(
                "2.7.2", zookeeper=zookeeper, broker_id=number, config=config, heap="256M"
            )
    with ExitStack() as stack:
        for broker in cluster.brokers.values():
            stack.enter_context(broker)
        eventually(lambda: cluster.agrees(RACKS))
        yield cluster
        for broker in cluster.brokers.values():
            print(broker.log_tail())


def _run(cluster: Cluster, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    bootstrap = ",".join(broker.bootstrap for broker in cluster.brokers.values())
    command = [*kafkapy_command(), *words, "--bootstrap", bootstrap]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in result.stderr
    assert result.returncode == code, result.stdout + result.stderr
    return result


def _json(cluster: Cluster, *words: str) -> Any:
    return json.loads(_run(cluster, *words, "--json").stdout)


def _create(cluster: Cluster, topic: str, assignment: list[list[int]]) -> None:
    """A topic with these replicas, and ten records in each partition."""
    admin = cluster.admin(1)
    created = admin.create_topics([NewTopic(topic, len(assignment), replica_assignment=assignment)])
    created[topic].result(WAIT_S)
    eventually(lambda: all(len(cluster.led(number, topic)) == len(assignment) for number in RACKS))
    cluster.produce(1, topic, [b"%d" % number for number in range(10 * len(assignment))], range(len(assignment)))


def _replicas(cluster: Cluster, topic: str) -> dict[int, list[int]]:
    return {index: list(each.replicas) for index, each in cluster.metadata(1).topics[topic].partitions.items()}


def test_brokers_are_shown(cluster: Cluster) -> None:
    _create(cluster, "shown", [[1, 2], [1, 3]])
    rows = {row["broker"]: row for row in _json(cluster, "brokers")}
    assert {number: row["rack"] for number, row in rows.items()} == RACKS
    assert [number for number, row in rows.items() if row["controller"]] == [cluster.controller(1)]
    assert all(row["address"] == cluster.brokers[number].bootstrap for number, row in rows.items())
    topics = cluster.metadata(1).topics.values()
    partitions = [each for topic in topics for each in topic.partitions.values()]
    for number, row in rows.items():
        assert row["leads"] == sum(each.leader == number for each in partitions)
        assert row["replicas"] == sum(number in each.replicas for each in partitions)
    assert all(directory["problem"] is None for row in rows.values() for directory in row["log_dirs"])
    assert sum(directory["size"] for directory in rows[1]["log_dirs"]) > 0
    assert cluster.brokers[2].bootstrap in _run(cluster, "brokers").stdout


def test_replicas_are_balanced_over_brokers_and_racks(cluster: Cluster) -> None:
    _create(cluster, "balanced", [[1, 3]] * 4)
    moved = _json(cluster, "topics", "reassign", "--to", "all", "--topic", "balanced", "--yes")
    assert moved["refused"] == []
    replicas = _replicas(cluster, "balanced")
    assert {each["partition"]: each["replicas"] for each in moved["partitions"]}.items() <= replicas.items()
    assert all({RACKS[broker] for broker in brokers} == {"a", "b"} for brokers in replicas.values())
    again = _run(cluster, "topics", "reassign", "--to", "all", "--topic", "balanced", "--yes").stdout
    assert again == "nothing to move: every replica is where the plan wants it\n"
    _run(cluster, "topics", "elect", "balanced")
    eventually(lambda: cluster.leaders(1, "balanced") == {index: brokers[0] for index, brokers in replicas.items()})
    assert len(cluster.consume(2, "balanced", range(4), 40)) == 40


def test_a_plan_is_that_of_kafkas_own_tool(cluster: Cluster, tmp_path: Path) -> None:
    _create(cluster, "planned", [[1], [1], [1]])
    words = ("topics", "reassign", "--to", "1,2,3", "--topic", "planned", "--replication-factor", "2")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(_json(cluster, *words, "--dry-run")))
    assert _replicas(cluster, "planned") == {0: [1], 1: [1], 2: [1]}
    said = _run(cluster, "topics", "reassign", "--plan", str(plan), "--yes", "--throttle", "1000000").stdout
    assert "moved: 3 partitions" in said
    assert "4 replicas to copy" in said  # broker 2 is the only one of its rack
    where = ("--bootstrap-server", cluster.brokers[cluster.controller(1)].bootstrap)
    verified = TOOLS.run(
        *("ReassignPartitionsCommand", *where, "--reassignment-json-file", str(plan), "--verify"),
        "--preserve-throttles",
    )
    assert verified.count("is complete") == 3
    assert _json(cluster, "topics", "describe", "planned")["configs"] == {}
    for number in RACKS:
        rows = _json(cluster, "configs", "describe", "broker", str(number))
        assert not [row["key"] for row in rows if "throttled" in row["key"]]


def test_a_move_is_listed_and_cancelled(cluster: Cluster, tmp_path: Path) -> None:
    _create(cluster, "cancelled", [[1]])
    # While broker 3 is stopped and its session is not over, a move to it can't end.
    pid = cluster.brokers[3].pid
    assert pid is not None
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "cancelled", "partition": 0, "replicas": [3]}]}')
    where = ("--bootstrap", cluster.brokers[cluster.controller(1)].bootstrap)
    if cluster.controller(1) == 3:
        pytest.fail("the controller should be the broker that was started first")
    os.kill(pid, signal.SIGSTOP)
    try:
        started = _run(cluster, "topics", "reassign", "--plan", str(plan), "--yes", "--no-wait", *where)
        assert started.stdout.endswith("started: 1 move\n")
        listed = _json(cluster, "topics", "reassign", "--list", *where)
        assert listed == [{"topic": "cancelled", "partition": 0, "replicas": [1], "adding": [3], "removing": [1]}]
        cancelled = _json(cluster, "topics", "reassign", "--cancel", "--yes", "--topic", "cancelled", *where)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert cancelled == {"cancelled": [{"topic": "cancelled", "partition": 0}]}
    eventually(lambda: cluster.agrees(RACKS))
    eventually(lambda: _replicas(cluster, "cancelled") == {0: [1]})
    assert _run(cluster, "topics", "reassign", "--cancel").stdout == "no replicas are moving\n"


def test_leaders_are_elected(cluster: Cluster) -> None:
    _create(cluster, "elected", [[2, 1], [2, 3], [1, 2]])
    cluster.brokers[2].stop()
    cluster.brokers[2].start()
    eventually(lambda: cluster.agrees(RACKS))
    eventually(lambda: all(len(each.isrs) == 2 for each in cluster.metadata(1).topics["elected"].partitions.values()))
    assert cluster.leaders(1, "elected") == {0: 1, 1: 3, 2: 1}
    found = {row["partition"]: row for row in _json(cluster, "topics", "elect", "elected:0", "elected:2")}
    assert (found[0]["leader_before"], found[0]["leader"], found[0]["result"]) == (1, 2, "elected")
    assert (found[2]["leader"], found[2]["result"]) == (1, "not needed")
    everything = _json(cluster, "topics", "elect")
    assert {"topic": "elected", "partition": 1, "leader_before": 3, "leader": 2, "result": "elected"} in everything


def test_an_unclean_leader_is_elected(cluster: Cluster) -> None:
    _create(cluster, "unclean", [[2, 3]])
    for number in (2, 3):
        cluster.brokers[number].kill()
        live = set(RACKS) - ({2} if number == 2 else {2, 3})
        eventually(lambda live=live: cluster.agrees(live))  # type: ignore[misc]  # a default argument of a lambda
    cluster.brokers[2].start()
    eventually(lambda: cluster.agrees({1, 2}))
    offline = {row["broker"]: row["state"] for row in _json(cluster, "brokers")}
    assert offline[3] == "offline"
    described = _json(cluster, "topics", "describe", "unclean")["partitions"]
    assert [(row["leader"], row["in_sync"], row["under_replicated"]) for row in described] == [(None, [3], True)]
    preferred = _run(cluster, "topics", "elect", "unclean", code=1)
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in preferred.stderr
    (row,) = _json(cluster, "topics", "elect", "unclean", "--unclean", "--yes")
    assert (row["leader_before"], row["leader"], row["result"]) == (None, 2, "elected")
    cluster.brokers[3].start()
    eventually(lambda: cluster.agrees(RACKS))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["reassign", "--to", "1,9"],
            "broker 9 is offline, or does not exist: replicas can move to brokers that are online, 1, 2, 3",
        ),
        (["reassign", "--to", "1", "--topic", "errors", "--yes"], "has 2 replicas, and --to names only 1 broker"),
        (["reassign", "--to", "1,2", "--topic", "none"], "topic none does not exist"),
        (["reassign", "--cancel", "--topic", "none"], "topic none does not exist"),
        (["elect", "errors:7"], "topic errors has no partition 7"),
        (["elect", "none"], "topic none does not exist"),
    ],
)
def test_errors_are_one_sentence(cluster: Cluster, words: list[str], sentence: str) -> None:
    if "errors" not in cluster.metadata(1).topics:
        _create(cluster, "errors", [[1, 2]])
    refused = _run(cluster, "topics", *words, code=1)
    assert refused.stderr.startswith("kafkapy: ")
    assert refused.stderr.count("\n") == 1
    assert sentence in refused.stderr
