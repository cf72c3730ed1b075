"""Targets that can't be tested, and brokers that end in the middle: a clear line each, and nothing stays behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from compat_tests.brokers.container import Container, environment, why_no_engine
from compat_tests.brokers.targets import MissingEngineError, TargetError, check, running
from compat_tests.selection.libraries import why_not_imported
from harness.process import wait_for
from tests.compat_tests.small_suite import run_suite, suite_command, suite_environment

NOBODY = "127.0.0.1:1"
NO_ENGINE = {"DOCKER_HOST": f"tcp://{NOBODY}"}
DYING = """
import os, signal

def test_before(broker):
    assert broker.pid

def test_dies(broker):
    os.kill(broker.pid, signal.SIGKILL)
    while not broker.why_gone():
        pass

def test_after(broker):
    raise AssertionError("never called")

def test_without():
    pass
"""
WAITING = """
import os, time

def test_waits(broker):
    with open("waiting", "w") as file:
        print(os.getpid(), broker.pid, broker.directory, file=file)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("kafka", "unknown target 'kafka': there are kafkapy, kafka-2.7.2"),
        ("kafka-4.1.0", "unknown target 'kafka-4.1.0': there are kafkapy, kafka-2.7.2, kafka-3.9.1, kafka-4.4.0"),
        (NOBODY, f"no Kafka broker answers at {NOBODY}"),
        ("testcontainers:", "testcontainers: names no image"),
        ("testcontainers:two words", "names no image"),
        ("127.0.0.1:", "unknown target"),
        ("kafka-4.4.0-cluster", "unknown target"),
    ],
)
def test_an_invalid_target_is_refused_in_one_line(target: str, said: str) -> None:
    with pytest.raises(TargetError) as error:
        check(target)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_without_an_engine_no_container_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE["DOCKER_HOST"])
    with pytest.raises(MissingEngineError, match=r"apache/kafka:3\.9\.1 was not tested: no Docker engine") as error:
        check("testcontainers:apache/kafka:3.9.1")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("module", ["docker", "testcontainers"])
def test_without_the_package_no_container_is_tested(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert "pip install testcontainers" in why_no_engine()


def test_a_container_is_told_how_it_is_seen_from_outside() -> None:
    named = environment(29092)
    assert named["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://127.0.0.1:29092"
    assert named["KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"] == "1"
    assert named["KAFKA_PROCESS_ROLES"] == "broker,controller"


def test_a_container_that_never_answers_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Image:
        """Stands for the package's container, whose image says something and never serves."""

        def __init__(self, image: str) -> None:
            calls.append(image)

        def with_bind_ports(self, inside: int, outside: int) -> "Image":
            return self

        def with_env(self, name: str, value: str) -> None:
            assert name.isupper()
            assert value

        def start(self) -> None:
            calls.append("start")

        def get_logs(self) -> tuple[bytes, bytes]:
            return b"it never serves\n", b""

        def stop(self) -> None:
            calls.append("stop")

    monkeypatch.setattr("testcontainers.core.container.DockerContainer", Image)
    monkeypatch.setattr("compat_tests.brokers.container.READY_TIMEOUT_S", 0.01)
    with pytest.raises(Exception, match="did not answer within 0 s:\nit never serves"), running("testcontainers:some"):
        pass
    assert calls == ["some", "start", "stop"]
    assert "no longer answers" in Container("some").why_gone()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("E   ModuleNotFoundError: No module named 'confluent_kafka'", "pip install confluent-kafka"),
        ("ModuleNotFoundError: No module named 'kafka.admin'", "pip install kafka-python"),
        ("ModuleNotFoundError: No module named 'compat_tests.nothing'", ""),
        ("SyntaxError: kafka", ""),
    ],
)
def test_only_libraries_may_be_missing(error: str, said: str) -> None:
    assert said in why_not_imported(error)
    assert bool(said) == bool(why_not_imported(error))


@pytest.mark.slow
def test_a_run_without_an_engine_names_what_it_skips(tmp_path: Path) -> None:
    suite = "def test_it(broker): pass"
    run = run_suite(tmp_path, "--target", "testcontainers:some", suite=suite, environment=NO_ENGINE)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "skipped 1: testcontainers:some: testcontainers:some was not tested: no Docker engine" in run.stdout


@pytest.mark.slow
def test_a_run_on_no_target_ends_before_it_begins(tmp_path: Path) -> None:
    run = run_suite(tmp_path, "--target", "kafkapy", "--target", NOBODY, suite="def test_it(broker): pass")
    assert run.returncode == 4
    assert run.stderr.strip() == f"ERROR: no Kafka broker answers at {NOBODY}"


@pytest.mark.slow
def test_a_missing_library_is_named(tmp_path: Path) -> None:
    (tmp_path / "blocked.py").write_text("import sys; sys.modules['aiokafka'] = None")
    blocked = {"PYTHONPATH": f"{suite_environment()['PYTHONPATH']}:{tmp_path}"}
    run = run_suite(tmp_path, "-p", "blocked", suite="import aiokafka", environment=blocked)
    assert "skipped 1: -: aiokafka is not installed here (pip install aiokafka)" in run.stdout
    assert "Error" not in run.stdout


MIXED = """
import pytest

def test_requests(broker):
    raise AssertionError("this one is for a single broker")

@pytest.mark.scenario("records", client="kcat")
def test_scenario(broker):
    assert len(broker.bootstrap.split(",")) == 3

@pytest.mark.scenario("errors", client="kcat")
@pytest.mark.one_broker(reason="why")
def test_single(broker):
    raise AssertionError("never called")

@pytest.mark.clusters
@pytest.mark.scenario("restart", client="kcat")
def test_kills(broker):
    for disturb in broker.disturbances(["__consumer_offsets"], ["some"]):
        disturb()
    assert broker.is_in_sync()

def test_without():
    pass
"""


@pytest.mark.slow
def test_a_single_broker_is_not_killed_as_a_cluster_is(tmp_path: Path) -> None:
    run = run_suite(tmp_path, "--target", "kafkapy", "-k", "kills or without", suite=MIXED)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed, 4 deselected" in run.stdout


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(180)
def test_a_cluster_is_the_target_of_scenarios_alone(tmp_path: Path) -> None:
    run = run_suite(tmp_path, "--target", "kafkapy-cluster", "-v", suite=MIXED)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 passed, 2 deselected" in run.stdout


def processes_in(directory: Path) -> list[list[str]]:
    """The command lines that name something below the directory."""
    commands = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
    return [words for words in commands if any(str(directory) in word for word in words)]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["kafkapy", pytest.param("kafka-2.7.2", marks=pytest.mark.java)])
def test_a_broker_that_dies_is_told_and_leaves_nothing(tmp_path: Path, target: str) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    run = run_suite(tmp_path, "--target", target, suite=DYING, environment={"TMPDIR": str(temporary)})
    assert run.returncode == 1
    lines = [line.strip() for line in run.stdout.splitlines()]
    told = [line for line in lines if "ended by itself with -9" in line and not line.startswith(("FAILED", "ERROR"))]
    assert [line.partition(f"{target} (process ")[0] for line in told] == ["during this test ", ""]
    assert "never called" not in run.stdout
    assert "3 passed" in run.stdout
    assert "2 errors" in run.stdout
    assert list(temporary.glob("kafka*")) == []
    assert processes_in(temporary) == []


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_run_that_is_killed_leaves_nothing(tmp_path: Path, workers: tuple[str, ...]) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = suite_environment(TMPDIR=str(temporary))
    command = suite_command(tmp_path, WAITING, *workers)
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as run:
        note = tmp_path / "waiting"
        assert wait_for(lambda: note.exists() and note.read_text().endswith("\n"), 30)
        tester, broker, directory = note.read_text().split()
        assert Path(directory).is_relative_to(temporary)
        os.kill(run.pid, signal.SIGKILL)
        if workers:
            os.kill(int(tester), signal.SIGKILL)
    assert wait_for(lambda: not psutil.pid_exists(int(broker)) and not Path(directory).exists(), 10)
