"""``kafkapy start`` as a process: its log lines, exit codes and imports."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkapy.cli import start
from kafkapy.cli.start_options import parse

START = [sys.executable, "-m", "kafkapy", "start"]
NOT_ASKED_FOR = (
    "kafkapy.testing",
    "kafkapy.observe",
    "h11",
    "kafkapy.server.dispatch.message_places",
    "kafkapy.protocol.places",
)
FORBIDDEN = ("typer", "click", "rich", "kazoo", "kafka", "prometheus_client")


@contextmanager
def _running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A broker that is ready, and its ready line."""
    with subprocess.Popen([*START, *arguments], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield process, next(line for line in process.stderr if "is ready at" in line)
        finally:
            process.kill()


def _refused(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*START, *arguments], check=False, capture_output=True, text=True, timeout=30)


@pytest.mark.usefixtures("heeded_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_start_logs_that_it_is_ready_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with _running("--data", str(tmp_path), "--port", "0") as (process, ready):
        assert re.search(r"is ready at 127\.0\.0\.1:[1-9][0-9]*\.", ready)
        assert f"Data directory: {tmp_path}. " in ready
        assert re.search(r"Record scan: (compiled|interpreted)", ready)
        process.send_signal(number)
        _, rest = process.communicate(timeout=10)
        assert f"Stopping: {number.name}" in rest
        assert "Traceback" not in rest
    assert process.returncode == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.usefixtures("heeded_signals")
def test_a_closed_terminal_stops_the_broker_cleanly(tmp_path: Path) -> None:
    ours, terminal = os.openpty()
    command = [*START, "--data", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True) as process:
        os.close(terminal)
        try:
            shown = b""
            while b"is ready at" not in shown:
                shown += os.read(ours, 4096)
            os.close(ours)  # the broker can't write log lines any more
            process.send_signal(signal.SIGHUP)
            assert process.wait(20) == 0
        finally:
            process.kill()
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_broker_under_nohup_survives_its_terminal(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a process inherits that a signal is ignored
    try:
        with _running("--data", str(tmp_path), "--port", "0") as (process, _):
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            _, rest = process.communicate(timeout=20)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.returncode == 0
    assert "Stopping: SIGTERM" in rest
    assert "SIGHUP" not in rest


class StopWhenReady(logging.Filter):
    """Sends this process the signal as soon as the broker logs that it is ready."""

    def filter(self, record: logging.LogRecord) -> bool:
        if "is ready at" in record.getMessage():
            os.kill(os.getpid(), signal.SIGTERM)
        return True


@pytest.mark.usefixtures("restored_root_logger")
def test_start_serves_and_stops_in_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    stop = StopWhenReady()
    logging.getLogger("kafkapy").addFilter(stop)
    try:
        assert start.run(parse(["--ephemeral", "--port", "0"])) == 0
    finally:
        logging.getLogger("kafkapy").removeFilter(stop)
    assert "Stopping: SIGTERM" in capsys.readouterr().err


@pytest.fixture
def restored_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("restored_root_logger")
def test_refusals_in_this_process(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert start.run(parse(["num.partition=3"])) == 1
    assert start.run(parse(["--ephemeral", "--data", str(tmp_path)])) == 1
    file = tmp_path / "server.properties"
    file.write_text("num.partition=3\nbroker.id=-5\n")
    assert start.run(parse(["--config", str(file)])) == 1
    with pytest.raises(SystemExit):
        start.run(parse(["--port", "-1"]))
    assert len(capsys.readouterr().err.splitlines()) >= 4


def test_ephemeral_leaves_nothing() -> None:
    with _running("--ephemeral", "--port", "0", "--log-json") as (process, ready):
        message = json.loads(ready)["message"]
        directory = re.search(r"Data directory: (\S+)\. ", message)
        assert directory is not None
        assert Path(directory[1]).is_dir()
        process.terminate()
        process.communicate(timeout=10)
    assert process.returncode == 0
    assert not Path(directory[1]).exists()


def test_print_bootstrap_prints_the_address_alone() -> None:
    command = [*START, "--ephemeral", "--print-bootstrap"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.fullmatch(r"127\.0\.0\.1:[1-9][0-9]*\n", line)
        host, _, port = line.strip().partition(":")
        socket.create_connection((host, int(port))).close()
        process.terminate()
        assert process.stdout.read() == ""
        assert process.wait(10) == 0


def test_print_bootstrap_prints_the_given_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [*START, "--ephemeral", "--print-bootstrap", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"127.0.0.1:{port}\n"
        process.terminate()


PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], "start", "--ephemeral", "--print-bootstrap", "--log-json"],
                         stdout=subprocess.PIPE, stderr=sys.stderr, stdin=subprocess.PIPE)
print(child.stdout.readline().decode().strip(), flush=True)
time.sleep(60)
"""
WAYS = {
    "told by the system": "",
    "looked for": "import os; del os.pidfd_open",
    "end of the input": "from kafkapy.cli import parent; parent.ORPHANS_ARE_ADOPTED = False",
}


@pytest.mark.parametrize("way", WAYS)
def test_the_broker_stops_and_removes_its_directory_however_its_parent_ends(way: str) -> None:
    program = f"{WAYS[way]}\nimport sys; from kafkapy.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", PARENT, program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        bootstrap = parent.stdout.readline()
        host, _, port = bootstrap.partition(":")
        socket.create_connection((host, int(port))).close()
        parent.kill()
        rest = parent.stderr.read()  # the input ends with the broker, which has the other end
    messages = [json.loads(line)["message"] for line in rest.splitlines()]
    assert "Stopping: the process that started this one has ended" in messages
    assert messages[-1] == "Stopped"
    directory = re.search(r"Data directory: (\S+)\. ", "\n".join(messages))
    assert directory is not None
    assert not Path(directory[1]).exists()


def test_the_broker_stops_if_its_address_can_not_be_printed() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*START, "--ephemeral", "--print-bootstrap"]
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True) as process:
        os.close(writer)
        _, said = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "Stopping: the reader of the standard output has closed it" in said
    assert said.splitlines()[-1].endswith("Stopped")


def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = _refused("--data", str(tmp_path), "--port", str(port), "--log-level", "error")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert re.match(rf"kafkapy: port {port} of 127\.0\.0\.1 is in use .* choose another port", refused.stderr)


def test_a_locked_data_directory_is_reported_in_one_line(tmp_path: Path) -> None:
    with _running("--data", str(tmp_path), "--port", "0"):
        refused = _refused("--data", str(tmp_path), "--port", "0", "--log-level", "error")
    assert refused.returncode == 1
    assert refused.stderr.startswith("kafkapy: ")
    assert str(tmp_path) in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_data_directory_of_another_cluster_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1001\ncluster.id=ANOTHERCLUSTERSIDENTITY\n")
    refused = _refused("--data", str(tmp_path), "--port", "0", "--log-level", "error")
    assert refused.returncode == 1
    assert "ANOTHERCLUSTERSIDENTITY" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["num.partition=3"],
            1,
            "kafkapy: there is no configuration key 'num.partition'; did you mean 'num.partitions'?",
        ),
        (
            ["num.partitions=0"],
            1,
            "kafkapy: Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        (
            ["listeners=SSL://127.0.0.1:0"],
            1,
            "kafkapy: listener SSL: a TLS listener needs a certificate: ssl.keystore.location is not set",
        ),
        (["zookeeper.connect=localhost"], 1, "kafkapy: 'localhost' is no address of a ZooKeeper"),
        (
            ["zookeeper.connect=127.0.0.1:1/kafka", "zookeeper.connection.timeout.ms=100"],
            1,
            "kafkapy: no ZooKeeper answers at 127.0.0.1:1 within 100 ms (127.0.0.1:1: no connection: Connect",
        ),
        (["--ephemeral", "--data", "x"], 1, "kafkapy: --ephemeral keeps no data: it can't be used with --data"),
        (["--config", "/no/such/file"], 1, "kafkapy: can't read the configuration /no/such/file: No such file"),
        (["--port", "70000"], 2, "argument --port: invalid"),
        (["--log-level", "loud"], 2, "argument --log-level: invalid choice"),
    ],
)
def test_an_invalid_command_line_is_reported_without_a_traceback(arguments: list[str], code: int, message: str) -> None:
    refused = _refused(*arguments)
    assert refused.returncode == code
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_unknown_key_in_a_file_causes_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"num.partition=3\nlog.dirs={tmp_path / 'data'}\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    with subprocess.Popen([*START, "--config", str(file)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        warning = next(line for line in process.stderr if "WARNING" in line)
        process.kill()
    assert "there is no configuration key 'num.partition'; did you mean 'num.partitions'?; it is ignored" in warning


def test_help_shows_options_and_examples() -> None:
    shown = subprocess.run([*START, "--help"], check=False, capture_output=True, text=True, timeout=30)
    assert shown.returncode == 0
    for text in ("--data DIR", "--port", "--config FILE", "--ephemeral", "--log-json", "key=value", "examples:"):
        assert text in shown.stdout


_IMPORTS = """
import logging, os, signal, sys
from kafkapy.cli import main as cli

class StopWhenReady(logging.Filter):
    def filter(self, record):
        if "is ready at" in record.getMessage():
            os.kill(os.getpid(), signal.SIGTERM)
        return True

def _is_own(name):
    return name.startswith("kafkapy.")

logging.getLogger("kafkapy").addFilter(StopWhenReady())
code = cli.main(["start", "--ephemeral", "--port", "0"])
print(code, *sorted({name.partition(".")[0] for name in sys.modules} | {*filter(_is_own, sys.modules)}))
"""


def test_start_does_not_import_the_other_commands() -> None:
    environment = {**os.environ, "COVERAGE_PROCESS_START": ""}
    result = subprocess.run(
        [sys.executable, "-c", _IMPORTS], capture_output=True, text=True, timeout=30, env=environment, check=True
    )
    code, *modules = result.stdout.split()
    assert code == "0"
    assert "kafkapy" in modules
    assert set(FORBIDDEN).isdisjoint(modules)
    assert not [name for name in modules if name.startswith(NOT_ASKED_FOR)]
