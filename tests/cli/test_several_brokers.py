"""``kafkapy brokers``, ``topics reassign`` and ``topics elect`` on several brokers."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from kafkapy.cli import main as cli
from kafkapy.cli import reassign
from kafkapy.clients import brokers as client_brokers
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import NoBrokerError, RequestFailedError
from kafkapy.clients.moves import FOLLOWER_RATE, LEADER_RATE, LEADER_REPLICAS
from kafkapy.protocol.errors import ErrorCode
from kafkapy.testing import Cluster
from tests.cli.conftest import Ran


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(4, {"auto.leader.rebalance.enable": False}) as running:
        yield running


@pytest.fixture
def run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs ``kafkapy`` with these words on the cluster."""
    monkeypatch.setenv("KAFKAPY_BOOTSTRAP", cluster.bootstrap)

    def run_command(*words: str) -> Ran:
        capsys.readouterr()
        code = cli.main(list(words))
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run_command


Run = Callable[..., Ran]


def _json(run: Run, *words: str) -> Any:
    ran = run(*words, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def _replicas(cluster: Cluster, topic: str) -> list[list[int]]:
    with ClusterClient(cluster.bootstrap) as client:
        return [partition.replica_nodes for partition in client.topic(topic).partitions]


def _plan(tmp_path: Path, topic: str, *replicas: list[int]) -> str:
    path = tmp_path / "plan.json"
    partitions = [{"topic": topic, "partition": at, "replicas": each} for at, each in enumerate(replicas)]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


@pytest.fixture
def topic(cluster: Cluster, run: Run, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic with one record in each of two partitions, whose replicas are on brokers 0 and 1."""
    name = request.node.name.partition("[")[0].replace("_", "-")
    cluster.create_topic(name, 2, replication_factor=2)
    for partition in range(2):
        cluster.produce(name, b"v", partition=partition)
    moved = run("topics", "reassign", "--plan", _plan(tmp_path, name, [0, 1], [1, 0]), "--yes")
    assert moved.code == 0, moved.err
    run("topics", "elect", name)
    yield name
    cluster.heal()
    for broker in cluster.brokers:
        broker.resume()
        broker.start()
    run("topics", "reassign", "--cancel", "--yes")
    cluster.delete_topic(name)


# brokers


def test_brokers(cluster: Cluster, run: Run, topic: str) -> None:
    rows = _json(run, "brokers")
    assert [row["broker"] for row in rows] == [0, 1, 2, 3]
    assert [row["address"] for row in rows] == [broker.bootstrap for broker in cluster.brokers]
    assert [row["controller"] for row in rows] == [broker is cluster.controller for broker in cluster.brokers]
    assert [(row["leads"], row["replicas"], row["out_of_sync"]) for row in rows[:3]] == [
        (1, 2, 0),
        (1, 2, 0),
        (0, 0, 0),
    ]
    assert rows[0]["log_dirs"][0]["size"] > 0
    assert rows[2]["log_dirs"][0]["size"] == 0
    table = run("brokers")
    assert any(line.split()[:3] == ["0", cluster.brokers[0].bootstrap, "-"] for line in table.out.splitlines())
    assert table.err == ""
    assert topic in cluster.brokers[0].topics()


def test_a_broker_that_is_away_is_offline(cluster: Cluster, run: Run, topic: str) -> None:
    cluster.brokers[1].kill()
    row = _json(run, "brokers")[1]
    assert (row["address"], row["state"], row["out_of_sync"], row["log_dirs"]) == (None, "offline", 2, None)
    assert any(line.split()[:4] == ["1", "-", "-", "offline"] for line in run("brokers").out.splitlines())
    assert topic


def test_a_broker_that_is_silent_does_not_hide_the_others(
    cluster: Cluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_brokers, "TIMEOUT_S", 0.2)
    cluster.brokers[3].pause()
    try:
        ran = run("brokers", "--json")
    finally:
        cluster.brokers[3].resume()
    assert ran.code == 0
    assert [row["log_dirs"] is None for row in json.loads(ran.out)] == [False, False, False, True]
    assert ran.err == (
        f"kafkapy: broker 3 does not report its log directories: {cluster.brokers[3].bootstrap} does not answer: "
        "something listens there, but has given no Kafka answer within 0.2 s. The broker is stopped or cut "
        "off, or this is no listener of a broker\n"
    )


def test_a_log_directory_that_is_offline_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = client_brokers.LogDir("/data/1", {}, "disk error")
    monkeypatch.setattr(client_brokers, "log_dirs", lambda _client, broker: [failed] if broker == 2 else [])
    assert run("brokers").err == "broker 2: log directory /data/1 is offline: disk error\n"


# reassign


def test_a_balanced_plan_is_shown_and_executed(cluster: Cluster, run: Run, topic: str) -> None:
    dry = run("topics", "reassign", "--to", "2,3", "--topic", topic, "--dry-run")
    assert dry.code == 0
    assert "2 partitions, 4 replicas to copy, " in dry.out
    assert _replicas(cluster, topic) == [[0, 1], [1, 0]]
    plan = _json(run, "topics", "reassign", "--to", "2,3", "--topic", topic, "--dry-run")
    assert plan["version"] == 1
    moved = run("topics", "reassign", "--to", "2,3", "--topic", topic, "--yes")
    assert moved.out.endswith("moved: 2 partitions\n"), moved.err
    assert _replicas(cluster, topic) == [each["replicas"] for each in plan["partitions"]]
    assert len(cluster.records(topic)) == 2
    again = _json(run, "topics", "reassign", "--to", "2,3", "--topic", topic)
    assert again == {"version": 1, "partitions": []}


def test_fewer_brokers_than_replicas_need_a_replication_factor(cluster: Cluster, run: Run, topic: str) -> None:
    refused = run("topics", "reassign", "--to", "3", "--topic", topic, "--dry-run")
    assert refused.code == 1
    assert refused.err == (
        f"kafkapy: partition {topic}-0 has 2 replicas, and --to names only 1 broker: name at least 2 brokers, or reduce"
        " the replicas with --replication-factor 1 (-r 1)\n"
    )
    plan = _json(run, "topics", "reassign", "--to", "3", "--topic", topic, "--dry-run", "-r", "1")
    assert [each["replicas"] for each in plan["partitions"]] == [[3], [3]]
    for broker in cluster.brokers[1:]:
        broker.kill()
    refused = run("topics", "reassign", "--to", "all", "--topic", topic, "--dry-run")
    assert ", and --to all means only 1 broker: start at least 2 brokers, or reduce the replicas" in refused.err


def test_it_asks_first(cluster: Cluster, run: Run, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.confirm", _no)
    for words in (["topics", "reassign", "--to", "2,3", "--topic", topic], ["topics", "elect", topic, "--unclean"]):
        assert run(*words).code == 1
    assert _replicas(cluster, topic) == [[0, 1], [1, 0]]


def _no(*_words: object, **_options: object) -> None:
    raise SystemExit(1)


def test_only_the_order_changes(run: Run, topic: str, tmp_path: Path) -> None:
    moved = run("topics", "reassign", "--plan", _plan(tmp_path, topic, [1, 0], [1, 0]), "--yes")
    assert "1 partition, nothing to copy" in moved.out
    assert moved.out.endswith(
        "moved: 1 partition; 1 partition not led by the first replica yet: kafkapy topics elect changes that\n"
    )
    (row,) = [row for row in _json(run, "topics", "elect", topic) if row["partition"] == 0]
    assert (row["leader_before"], row["leader"], row["result"]) == (0, 1, "elected")


def test_a_move_that_waits_is_listed_and_cancelled(cluster: Cluster, run: Run, topic: str, tmp_path: Path) -> None:
    cluster.brokers[3].pause()
    plan = _plan(tmp_path, topic, [3, 0])
    started = run("topics", "reassign", "--plan", plan, "--yes", "--no-wait")
    assert started.out.endswith("started: 1 move\n")
    row = {"topic": topic, "partition": 0, "replicas": [0, 1], "adding": [3], "removing": [1]}
    assert _json(run, "topics", "reassign", "--list") == [row]
    refused = run("topics", "reassign", "--plan", plan, "--yes")
    assert refused.code == 1
    assert refused.err == (
        f"kafkapy: replicas of {topic}-0 are moving already: wait for the end, or stop it with kafkapy topics reassign"
        " --cancel\n"
    )
    dry = run("topics", "reassign", "--cancel", "--dry-run")
    assert any(line.split() == [topic, "0", "3,", "0", "0,", "1"] for line in dry.out.splitlines())
    cancelled = run("topics", "reassign", "--cancel", "--topic", topic, "--yes")
    assert cancelled.out.endswith("cancelled: 1 move\n")
    cluster.brokers[3].resume()
    assert _json(run, "topics", "reassign", "--cancel", "--yes") == {"cancelled": []}
    assert run("topics", "reassign", "--list").out == "moving replicas: no replicas are moving\n"
    assert _replicas(cluster, topic) == [[0, 1], [1, 0]]


def test_a_cancelled_move_loses_its_limit(
    cluster: Cluster, run: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_brokers, "TIMEOUT_S", 0.2)
    plan = _plan(tmp_path, topic, [2, 0])
    cluster.separate([2])
    started = run("topics", "reassign", "--plan", plan, "--yes", "--no-wait", "--throttle", "1000")
    assert started.out.endswith("started: 1 move; its limit stays until kafkapy topics reassign --cancel removes it\n")
    assert LEADER_REPLICAS in _json(run, "topics", "describe", topic)["configs"]
    cluster.brokers[2].pause()
    cancelled = run("topics", "reassign", "--cancel", "--yes")
    assert cancelled.code == 0
    assert cancelled.err.startswith("kafkapy: broker 2 keeps its limit: ")
    assert cancelled.err.endswith(f"configs alter broker 2 --delete {LEADER_RATE} --delete {FOLLOWER_RATE}\n")
    assert _json(run, "topics", "describe", topic)["configs"] == {}
    cluster.brokers[2].resume()
    words = ("configs", "alter", "broker", "2", "--delete", LEADER_RATE, "--delete", FOLLOWER_RATE)
    assert run(*words).code == 0


def test_all_brokers_lose_their_limit_at_the_same_time(
    cluster: Cluster, run: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.separate([2])
    assert (
        run(
            "topics", "reassign", "--plan", _plan(tmp_path, topic, [2, 0]), "--yes", "--no-wait", "--throttle", "1"
        ).code
        == 0
    )
    together = threading.Barrier(3, timeout=30)
    remove_throttle = reassign.moves.remove_throttle

    def remove(client: ClusterClient, brokers: list[int], topics: Any) -> None:
        if brokers:
            together.wait()
        remove_throttle(client, brokers, topics)

    monkeypatch.setattr(reassign.moves, "remove_throttle", remove)
    cancelled = run("topics", "reassign", "--cancel", "--yes")
    assert (cancelled.code, cancelled.err) == (0, "")
    assert not {LEADER_RATE, FOLLOWER_RATE} & {row["key"] for row in _json(run, "configs", "describe", "broker", "2")}


def test_a_topic_is_described_while_the_first_broker_is_silent(
    cluster: Cluster, run: Run, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkapy.clients.cluster.SILENT_S", 0.2)
    cluster.brokers[0].pause()
    assert _json(run, "configs", "describe", "topic", topic) == []


def test_a_move_that_has_ended_loses_its_limit(run: Run, topic: str, tmp_path: Path) -> None:
    plan = _plan(tmp_path, topic, [2, 0])
    assert run("topics", "reassign", "--plan", plan, "--yes", "--no-wait", "--throttle", "1000000").code == 0
    assert any(not _json(run, "topics", "reassign", "--list") for _ in range(1_000))
    assert LEADER_REPLICAS in _json(run, "topics", "describe", topic)["configs"]
    assert run("topics", "reassign", "--cancel", "--dry-run").out == "no replicas are moving\n"
    freed = run("topics", "reassign", "--cancel", "--topic", topic)
    assert freed.out == "no replicas are moving; the limit of --throttle is removed from 1 topic\n"
    assert _json(run, "topics", "describe", topic)["configs"] == {}
    assert not {LEADER_RATE, FOLLOWER_RATE} & {row["key"] for row in _json(run, "configs", "describe", "broker", "2")}


def test_the_command_waits_for_the_end_and_shows_progress(
    cluster: Cluster, run: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.brokers[3].pause()
    monkeypatch.setattr(reassign, "shows_progress", lambda: True)
    bar = MagicMock()
    monkeypatch.setattr("kafkapy.cli.output.progress", lambda: bar)
    asked: list[int] = []
    moving = reassign.moves.moving

    def resume_later(client: ClusterClient) -> Any:
        asked.append(1)
        if len(asked) == 3:
            cluster.brokers[3].resume()
        if len(asked) == 4:
            raise NoBrokerError("the controller has ended")
        return moving(client)

    monkeypatch.setattr(reassign.moves, "moving", resume_later)
    moved = run("topics", "reassign", "--plan", _plan(tmp_path, topic, [3, 0]), "--yes")
    assert "moved: 1 partition" in moved.out
    assert len(asked) >= 5
    shown = [call.kwargs for call in bar.__enter__().update.call_args_list]
    assert shown[0] == {"description": f"moving {topic}-0", "completed": 0}
    assert shown[-1] == {"description": "moving", "completed": 1}
    assert _replicas(cluster, topic) == [[3, 0], [1, 0]]


def test_a_cluster_that_stays_silent_ends_the_wait(run: Run, topic: str, tmp_path: Path, monkeypatch: Any) -> None:
    asked: list[int] = []

    def silent(_client: ClusterClient) -> Any:
        asked.append(1)
        if len(asked) == 1:
            return {}
        raise NoBrokerError("no broker answers at nowhere:1")

    monkeypatch.setattr(reassign, "LOOK_EVERY_S", 0)
    monkeypatch.setattr(reassign.moves, "moving", silent)
    failed = run("topics", "reassign", "--plan", _plan(tmp_path, topic, [2, 0]), "--yes")
    assert (failed.code, failed.err) == (1, "kafkapy: no broker answers at nowhere:1\n")
    assert len(asked) == reassign.PATIENCE_LOOKS + 2


def test_ctrl_c_leaves_the_moves_to_the_cluster(run: Run, topic: str, tmp_path: Path, monkeypatch: Any) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reassign, "_wait", interrupted)
    words = ["topics", "reassign", "--plan", _plan(tmp_path, topic, [2, 0]), "--yes"]
    stopped = run(*words)
    assert stopped.code == 130
    assert stopped.err == (
        "kafkapy: the cluster goes on moving. kafkapy topics reassign --list shows the moves, --cancel stops them\n"
    )


def test_a_move_that_somebody_cancels_is_reported(
    cluster: Cluster, run: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.brokers[3].pause()
    monkeypatch.setattr(reassign, "PATIENCE_LOOKS", 2)
    wait = reassign._wait

    def cancelled_meanwhile(client: ClusterClient, started: Any) -> None:
        reassign.moves.move(client, dict.fromkeys(started))
        wait(client, started)

    monkeypatch.setattr(reassign, "_wait", cancelled_meanwhile)
    failed = run("topics", "reassign", "--plan", _plan(tmp_path, topic, [3, 0]), "--yes")
    assert failed.code == 1
    assert failed.err == (
        f"kafkapy: 1 partition did not move as planned: {topic}-0 has replicas 0, 1, not 3, 0. The move was"
        " cancelled or replaced\n"
    )


def test_moves_that_are_refused_are_reported(run: Run, topic: str, tmp_path: Path, monkeypatch: Any) -> None:
    move = reassign.moves.move

    def refuse_first(client: ClusterClient, targets: Any) -> Any:
        (first, *others) = targets
        error = RequestFailedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, what=f"partition {topic}-0")
        return {first: error, **move(client, {place: targets[place] for place in others})}

    monkeypatch.setattr(reassign.moves, "move", refuse_first)
    for words in ([], ["--no-wait"]):
        plan = _plan(tmp_path, topic, [2, 0], [2 + len(words), 0])
        failed = run("topics", "reassign", "--plan", plan, "--yes", *words)
        assert failed.code == 1
        assert failed.err.startswith(f"kafkapy: 1 move refused: partition {topic}-0: ")
        assert failed.err.endswith("(INVALID_REPLICA_ASSIGNMENT)\n")


def test_a_throttle_is_set_and_removed(run: Run, topic: str, tmp_path: Path, monkeypatch: Any) -> None:
    plan = _plan(tmp_path, topic, [2, 0], [1, 2])
    set_while_moving: list[tuple[str | None, str | None]] = []
    wait = reassign._wait

    def look(client: ClusterClient, started: Any) -> None:
        of_broker = {each.name: each.value for each in reassign.moves.configs.describe(client, "broker", "2")}
        of_topic = {each.name: each.value for each in reassign.moves.configs.describe(client, "topic", topic)}
        set_while_moving.append((of_broker[FOLLOWER_RATE], of_topic[LEADER_REPLICAS]))
        wait(client, started)

    monkeypatch.setattr(reassign, "_wait", look)
    assert run("topics", "reassign", "--plan", plan, "--yes", "--throttle", "1000000").code == 0
    assert set_while_moving == [("1000000", "0:0,0:1,1:1,1:0")]
    assert _json(run, "topics", "describe", topic)["configs"] == {}
    keys = [row["key"] for row in _json(run, "configs", "describe", "broker", "2")]
    assert not [key for key in keys if "throttled" in key]


def test_racks_of_some_brokers_are_not_considered(run: Run, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = ClusterClient.metadata

    def with_racks(self: ClusterClient, *words: Any, **options: Any) -> Any:
        found = metadata(self, *words, **options)
        for broker in found.brokers:
            broker.rack = "a" if broker.node_id < 2 else None
        return found

    monkeypatch.setattr(ClusterClient, "metadata", with_racks)
    ran = run("topics", "reassign", "--to", "0,1,2", "--topic", topic, "--dry-run")
    assert ran.err == "kafkapy: racks are not considered: broker.rack is not set for 2\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say what to do: --to 0,1,2, --plan FILE, --list or --cancel"),
        (["--to", "1", "--plan", "x"], "--to and --plan can't be used together: choose one of them"),
        (["--to", "1", "--list", "--cancel"], "--to and --list and --cancel can't be used together: choose one"),
        (["--list", "-r", "2"], "--replication-factor goes with --to"),
        (["--plan", "x", "--topic", "t"], "--topic goes with --to and --cancel"),
        (["--cancel", "--throttle", "5"], "--throttle goes with --to and --plan"),
        (["--to", "x"], "'x' is no list of brokers: write --to 0,1,2 or --to all"),
        (["--to", "-1"], "'-1' is no list of brokers: write --to 0,1,2 or --to all"),
        (["--to", ","], "',' is no list of brokers: write --to 0,1,2 or --to all"),
        (["--to", "1,1"], "--to 1,1 names a broker twice"),
        (
            ["--to", "7"],
            "broker 7 is offline, or does not exist: replicas can move to brokers that are online, 0, 1, 2, 3",
        ),
        (["--to", "1", "--topic", "none"], "topic none does not exist"),
        (
            ["--to", "1", "--topic", "kept", "-r", "2"],
            "--replication-factor 2 needs as many brokers, and --to names only 1 broker",
        ),
        (
            ["--to", "all", "-r", "5"],
            "--replication-factor 5 needs as many brokers, and --to all means only 4 brokers",
        ),
        (["--cancel", "--topic", "none"], "topic none does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
    ],
)
def test_bad_options_of_reassign_are_one_sentence(cluster: Cluster, run: Run, words: list[str], message: str) -> None:
    if "kept" not in cluster.brokers[0].topics():
        cluster.create_topic("kept", 1, replication_factor=1)
    refused = run("topics", "reassign", *words)
    assert refused.code == 1
    assert refused.err.startswith(f"kafkapy: {message}")
    assert refused.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is no JSON"),
        ("[" * 100_000, "this is no JSON"),
        ("[]", 'a plan begins with {"version": 1, "partitions": ['),
        ('{"version": 2, "partitions": []}', "a plan begins with"),
        ('{"version": 1, "partitions": {}}', "a plan begins with"),
        ('{"version": 1, "partitions": []}', "the plan has no partitions"),
        ('{"version": 1, "partitions": [5]}', "5 is no partition of a plan: write"),
        ('{"version": 1, "partitions": [{"topic": 5, "partition": 0, "replicas": [1]}]}', "is no partition of a plan"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": -1, "replicas": [1]}]}', "is no partition of a"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": true, "replicas": [1]}]}', "is no partition of a"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}', "is no partition of a"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": []}]}', "t-0 has an empty list of"),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}',
            "t-0 names broker 1 twice",
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [-1]}]}',
            "t-0 is to have a replica on broker -1: the ids of brokers are whole numbers from 0 to 2147483647",
        ),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": ["1"]}]}', 'on broker "1": the ids'),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [4294967296]}]}', "whole numbers"),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/a"]}]}',
            "t-0 names log directories: this command moves replicas between brokers only",
        ),
        (
            '{"version": 1, "partitions": [' + ",".join(['{"topic": "t", "partition": 0, "replicas": [1]}'] * 2) + "]}",
            "partition t-0 is there twice",
        ),
    ],
)
def test_an_invalid_plan_is_refused_in_one_sentence(run: Run, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    refused = run("topics", "reassign", "--plan", str(path))
    assert refused.code == 1
    assert refused.err.startswith(f"kafkapy: {path}: ")
    assert message in refused.err
    assert refused.err.count("\n") == 1


def test_a_plan_must_fit_the_cluster(run: Run, topic: str, tmp_path: Path) -> None:
    for name, replicas, message in (
        ("none", [[0]], "topic none does not exist"),
        (topic, [[0], [0], [0]], f"topic {topic} has no partition 2"),
        (
            topic,
            [[8]],
            "broker 8 is offline, or does not exist: replicas can move to brokers that are online, 0, 1, 2, 3",
        ),
    ):
        refused = run("topics", "reassign", "--plan", _plan(tmp_path, name, *replicas))
        assert (refused.code, refused.err) == (1, f"kafkapy: {message}\n")
    missing = run("topics", "reassign", "--plan", str(tmp_path / "missing.json"))
    assert missing.err == f"kafkapy: {tmp_path}/missing.json: No such file or directory\n"


def test_replicas_do_not_move_to_an_offline_broker(cluster: Cluster, run: Run, topic: str) -> None:
    cluster.brokers[1].kill()
    refused = run("topics", "reassign", "--to", "1,2", "--topic", topic)
    assert (refused.code, refused.err) == (
        1,
        "kafkapy: broker 1 is offline: replicas can move to brokers that are online, 0, 2, 3\n",
    )


# elect


def test_preferred_leaders_are_elected(cluster: Cluster, run: Run, topic: str) -> None:
    cluster.brokers[0].restart()
    cluster.wait_until_in_sync(topic)
    rows = _json(run, "topics", "elect", f"{topic}:0", topic)
    assert rows == [
        {"topic": topic, "partition": 0, "leader_before": 1, "leader": 0, "result": "elected"},
        {"topic": topic, "partition": 1, "leader_before": 1, "leader": 1, "result": "not needed"},
    ]
    assert run("topics", "elect").out == (
        "elections of preferred leaders: none needed, each partition is led by its first replica\n"
    )


def test_an_election_that_fails_is_an_error(cluster: Cluster, run: Run, topic: str) -> None:
    cluster.brokers[0].kill()
    failed = run("topics", "elect", topic)
    assert failed.code == 1
    assert any(
        line.split() == [topic, "0", "1", "1", "PREFERRED_LEADER_NOT_AVAILABLE"] for line in failed.out.splitlines()
    )
    assert failed.err.startswith(f"kafkapy: 1 of 2 elections failed, leaders stay as they were: partition {topic}-0: ")


def test_an_unclean_leader_is_elected(cluster: Cluster, run: Run, topic: str) -> None:
    cluster.brokers[1].kill()
    cluster.brokers[0].kill()
    cluster.brokers[1].start()
    described = _json(run, "topics", "describe", topic)["partitions"]
    assert [(row["leader"], row["in_sync"], row["under_replicated"]) for row in described] == [(None, [0], True)] * 2
    rows = _json(run, "topics", "elect", topic, "--unclean", "--yes")
    assert [(row["leader_before"], row["leader"], row["result"]) for row in rows] == [(None, 1, "elected")] * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--unclean"], "--unclean may lose records: name the topics"),
        (["none"], "topic none does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
        (["kept:x"], "'kept:x' is no topic and partition: write kept:0"),
        (["kept:9"], "topic kept has no partition 9"),
    ],
)
def test_bad_arguments_of_elect_are_one_sentence(cluster: Cluster, run: Run, words: list[str], message: str) -> None:
    if "kept" not in cluster.brokers[0].topics():
        cluster.create_topic("kept", 1, replication_factor=1)
    refused = run("topics", "elect", *words)
    assert (refused.code, refused.err) == (1, f"kafkapy: {message}\n")


def test_without_a_controller_the_sentence_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = ClusterClient.metadata

    def without(self: ClusterClient, *words: Any, **options: Any) -> Any:
        found = metadata(self, *words, **options)
        found.controller_id = -1
        return found

    monkeypatch.setattr(ClusterClient, "metadata", without)
    monkeypatch.setattr("kafkapy.clients.cluster.RETRIES", 2)
    refused = run("topics", "reassign", "--list")
    assert refused.err == "kafkapy: the cluster has no controller at the moment (NOT_CONTROLLER)\n"
