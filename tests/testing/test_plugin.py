"""The pytest plugin, in separate runs of pytest."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TESTS = """
import os, pytest
from pathlib import Path

def note(*words):
    with Path(os.environ["NOTES"]).open("a") as notes:
        print(os.getpid(), *words, file=notes)

@pytest.mark.parametrize("at", range(4))
def test_each_has_its_own_topic(kafka_broker, kafka_topic, at):
    note(kafka_broker.bootstrap, kafka_topic)
    assert kafka_broker.records(kafka_topic) == []
    kafka_broker.produce(kafka_topic, b"%d" % at)
    assert [record.value for record in kafka_broker.records(kafka_topic)] == [b"%d" % at]
    assert len([name for name in kafka_broker.topics() if name.startswith("test-each")]) == 1

@pytest.mark.kafka_topic(partitions=3, configs={"cleanup.policy": "compact"})
def test_a_mark_shapes_it(kafka_broker, kafka_topic):
    assert kafka_broker.topics()[kafka_topic] == 3

def test_stops_it(kafka_broker, kafka_topic):
    kafka_broker.stop()

def test_breaks_it(kafka_broker, kafka_topic):
    kafka_broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce")
    kafka_broker.faults.pause()

def test_kills_it(kafka_broker):
    kafka_broker.kill()

def test_it_runs_again(kafka_broker):
    assert kafka_broker.is_running
    assert not kafka_broker.faults.rules
    assert not kafka_broker.faults.is_paused

def test_without():
    note("none")
"""


def run(directory: Path, *arguments: str, tests: str = TESTS, ini: str = "") -> tuple[str, int, list[list[str]]]:
    """The output of pytest, its exit code, and the notes of the tests."""
    (directory / "test_it.py").write_text(tests)
    (directory / "pytest.ini").write_text(f"[pytest]\n{ini}")
    temporary = directory / "temporary"
    temporary.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "NOTES": str(directory / "notes"),
        "TMPDIR": str(temporary),
        "COVERAGE_PROCESS_START": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "kafkapy.testing.plugin", *arguments]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    notes = directory / "notes"
    noted = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
    assert not [path for path in temporary.iterdir() if path.name.startswith("kafkapy-")]
    return done.stdout + done.stderr, done.returncode, noted


def test_one_broker_for_a_session_and_a_topic_for_each_test(tmp_path: Path) -> None:
    said, code, noted = run(tmp_path)
    assert code == 0, said
    assert len({words[1] for words in noted if len(words) == 3}) == 1
    assert len({words[2] for words in noted if len(words) == 3}) == 4


def test_each_worker_of_xdist_has_its_own_broker(tmp_path: Path) -> None:
    said, code, noted = run(tmp_path, "-p", "xdist", "-n", "2")
    assert code == 0, said
    brokers = {(process, words[0]) for process, *words in noted if len(words) == 2}
    assert len(brokers) == len({process for process, _ in brokers}) == len({address for _, address in brokers}) == 2


CLUSTER = """
import pytest

def test_a_topic_of_its_own(kafka_cluster, kafka_cluster_topic):
    assert kafka_cluster.brokers[1].topics() == {kafka_cluster_topic: 1}
    kafka_cluster.leader(kafka_cluster_topic).kill()
    kafka_cluster.brokers[0].faults.drop(api="Produce")

@pytest.mark.kafka_topic(partitions=3)
def test_separates_and_pauses(kafka_cluster, kafka_cluster_topic):
    assert all(broker.topics() == {kafka_cluster_topic: 3} for broker in kafka_cluster.brokers)
    kafka_cluster.separate([0])
    kafka_cluster.brokers[1].pause()

def test_separates(kafka_cluster):
    kafka_cluster.separate([1])

def test_all_is_well_again(kafka_cluster):
    assert len(kafka_cluster.brokers) == 2
    assert not any(broker.faults.rules or broker.faults.is_paused for broker in kafka_cluster.brokers)
    kafka_cluster.create_topic("t", -1)
    kafka_cluster.produce("t", b"v", partition=4)
    kafka_cluster.wait_until_in_sync("t")
"""


def test_a_cluster_for_a_session(tmp_path: Path) -> None:
    ini = "kafka_cluster_settings =\n    num.partitions = 5\nkafka_cluster_brokers = 2\n"
    said, code, _ = run(tmp_path, tests=CLUSTER, ini=ini)
    assert code == 0, said


BY_NAME = """
import pytest

@pytest.fixture
def on_demand(request):
    return lambda name: request.getfixturevalue(name)

def test_stops_the_broker(on_demand):
    broker = on_demand("kafka_broker")
    broker.faults.drop(api="Metadata")
    broker.stop()

def test_the_broker_is_well_again(kafka_broker):
    assert kafka_broker.is_running
    assert not kafka_broker.faults.rules

def test_disturbs_the_cluster(on_demand):
    cluster = on_demand("kafka_cluster")
    cluster.separate([0])
    cluster.brokers[0].faults.drop(api="Produce")
    cluster.brokers[1].kill()

def test_the_cluster_is_well_again(kafka_cluster):
    assert all(broker.is_running and not broker.faults.rules for broker in kafka_cluster.brokers)
    kafka_cluster.create_topic("t")
    kafka_cluster.wait_until_in_sync("t")
"""


def test_a_fixture_that_a_test_asks_for_by_name_is_restored_too(tmp_path: Path) -> None:
    said, code, _ = run(tmp_path, tests=BY_NAME, ini="kafka_cluster_brokers = 2\n")
    assert code == 0, said


@pytest.mark.parametrize(
    ("ini", "message"),
    [
        ("kafka_cluster_brokers = many\n", "kafka_cluster_brokers is 'many': write a number"),
        ("kafka_cluster_brokers = 0\n", "kafka_cluster can't start: a cluster of 0 brokers can't be had"),
        ("kafka_cluster_scope = forever\n", "kafka_cluster_scope is 'forever': write one of session"),
        ("kafka_cluster_settings = num.partitions\n", "'num.partitions' is no setting of a Kafka broker"),
        ("kafka_cluster_settings = num.partition=1\n", "kafka_cluster can't start: there is no configuration key"),
    ],
)
def test_invalid_options_of_a_cluster_are_reported_in_one_line(tmp_path: Path, ini: str, message: str) -> None:
    said, code, _ = run(tmp_path, tests=CLUSTER, ini=ini)
    assert code != 0
    assert message in said
    assert "INTERNALERROR" not in said


SETTINGS = """
import pytest

def test_settings(kafka_broker):
    kafka_broker.create_topic("t", -1)
    assert kafka_broker.topics() == {"t": 3}

def test_scope(kafka_broker):
    assert kafka_broker.topics() == {}
"""


def test_settings_and_scope_come_from_the_ini_file_and_the_command_line(tmp_path: Path) -> None:
    ini = "kafka_broker_settings =\n    num.partitions = 2\n    min.insync.replicas=1\nkafka_broker_scope = function\n"
    said, code, _ = run(tmp_path, "--kafka-broker-setting", "num.partitions=3", tests=SETTINGS, ini=ini)
    assert code == 0, said


@pytest.mark.parametrize(
    ("argument", "ini", "message"),
    [
        (
            "num.partition=3",
            "",
            "kafka_broker can't start: there is no configuration key 'num.partition'; did you mean",
        ),
        ("num.partitions", "", "'num.partitions' is no setting of a Kafka broker: write key=value"),
        ("num.partitions=3", "kafka_broker_scope = forever\n", "kafka_broker_scope is 'forever': write one of session"),
    ],
)
def test_invalid_options_of_the_plugin_are_reported_in_one_line(
    tmp_path: Path, argument: str, ini: str, message: str
) -> None:
    said, code, _ = run(tmp_path, "--kafka-broker-setting", argument, tests=SETTINGS, ini=ini)
    assert code != 0
    assert message in said
    assert "INTERNALERROR" not in said


def test_a_suite_without_the_fixtures_does_not_import_the_broker(tmp_path: Path) -> None:
    tests = (
        "import sys\n\ndef test_it():\n"
        "    ours = {name for name in sys.modules if name.split('.')[0] == 'kafkapy'}\n"
        "    assert ours == {'kafkapy', 'kafkapy.testing', 'kafkapy.testing.plugin'}\n"
    )
    said, code, _ = run(tmp_path, tests=tests)
    assert code == 0, said


def test_pytest_finds_the_installed_plugin(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    project = tomllib.loads((pytestconfig.rootpath / "pyproject.toml").read_text())["project"]
    ((name, module),) = project["entry-points"]["pytest11"].items()
    installed = tmp_path / "site" / "installed-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{name}-installed = {module}\n")
    path = os.pathsep.join([str(tmp_path / "site"), str(pytestconfig.rootpath)])
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "--fixtures", "-p", f"no:{name}"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path, "COVERAGE_PROCESS_START": ""},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "kafka_broker [session scope]" in shown.stdout
    assert "kafka_topic" in shown.stdout
    assert "kafka_cluster [session scope]" in shown.stdout


def test_the_broker_is_secured_by_the_ini_file(tmp_path: Path) -> None:
    tests = """
from confluent_kafka import Producer

def test_it(kafka_broker, kafka_topic):
    producer = Producer(kafka_broker.client_settings("confluent-kafka", "bob"))
    producer.produce(kafka_topic, b"v")
    assert producer.flush(10) == 0
    assert kafka_broker.security.kind.protocol == "SASL_SSL"

def test_a_cluster(kafka_cluster):
    producer = Producer(kafka_cluster.client_settings("confluent-kafka", "bob"))
    producer.produce("t", b"v")
    assert producer.flush(10) == 0
"""
    said, code, _ = run(tmp_path, tests=tests, ini="kafka_security = sasl_ssl\n")
    assert code == 0, said
    said, code, _ = run(tmp_path, tests=tests, ini="kafka_security = tls\n")
    assert code == 1
    assert "kafka_broker can't start: security is 'tls': it must be one of ssl, mtls" in said
