"""``kafkapy cluster start`` as a process: its banner, its ends, its errors."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkapy.cli import app, cluster, cluster_options, cluster_start
from kafkapy.cli import main as cli
from kafkapy.cli.cluster_options import parse
from kafkapy.clients.brokers import log_dirs
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.topics import create_topic
from kafkapy.protocol.errors import ErrorCode

START = [sys.executable, "-m", "kafkapy", "cluster", "start"]


@contextmanager
def _running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A cluster that is ready, and its banner."""
    words = [*START, "--port", "0", *arguments]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if line.startswith("  stop "):
                    break
            yield process, lines
        finally:
            process.kill()


def _bootstrap(banner: list[str]) -> str:
    return next(line.split("bootstrap.servers=")[1] for line in banner if "bootstrap.servers=" in line)


def _refused(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*START, *arguments], check=False, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_banner_says_how_to_connect_and_a_signal_stops_the_cluster(number: signal.Signals) -> None:
    with _running("--brokers", "2", "--racks", "a,b") as (process, banner):
        assert banner[0].endswith(": a cluster of 2 brokers is ready")
        addresses = _bootstrap(banner).split(",")
        for broker_id, (address, rack) in enumerate(zip(addresses, "ab", strict=True)):
            assert f"  broker {broker_id}   {address}   rack {rack}" in banner
        assert f"  look      kafkapy brokers --bootstrap {addresses[0]}   (any of the addresses will do)" in banner
        assert "  data      temporary, removed at the end; --data DIR keeps them" in banner
        assert f"  stop      Ctrl-C, or kill {process.pid}" in banner
        with ClusterClient(addresses[1]) as client:
            create_topic(client, "t", partitions=1, configs={})
            topic = client.retrying(lambda: client.topic("t"), also=frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}))
            assert sorted(topic.partitions[0].replica_nodes) == [0, 1]
            directory = Path(log_dirs(client, 0)[0].path)
            assert directory.is_dir()
        process.send_signal(number)
        process.send_signal(signal.SIGINT)  # a second Ctrl-C does not interrupt the stop
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, "")
    assert not directory.exists()


def test_kept_data_decide_how_many_brokers_start(tmp_path: Path) -> None:
    data = str(tmp_path / "kept")
    with _running("--brokers", "2", "--data", data) as (process, banner):
        assert f"  data      {data}, kept for the next start" in banner
        with ClusterClient(_bootstrap(banner)) as client:
            create_topic(client, "t", partitions=2, configs={})
        locked = _refused("--data", data, "--brokers", "2", "--port", "0")
        assert (locked.returncode, locked.stdout, locked.stderr.count("\n")) == (1, "", 1)
        assert f"kafkapy: {data} is in use by another process" in locked.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    fewer = _refused("--data", data, "--brokers", "1", "--port", "0")
    assert fewer.stderr == (f"kafkapy: {data} has the data of 2 brokers: a cluster of 1 would miss records, start 2\n")
    alone = subprocess.run(
        [sys.executable, "-m", "kafkapy", "start", "--data", data, "--port", "0"],
        check=False, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (alone.returncode, alone.stdout) == (1, "")
    assert alone.stderr == (
        f"kafkapy: {data} has the data of a cluster of brokers: start it with kafkapy cluster start --data {data}\n"
    )
    with _running("--data", data) as (process, banner):
        assert "a cluster of 2 brokers is ready" in banner[0]
        with ClusterClient(_bootstrap(banner)) as client:
            assert len(client.topic("t").partitions) == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_other_languages_get_addresses_a_control_port_and_an_end() -> None:
    words = [*START, "--print-bootstrap", "--control-port", "0", "group.initial.rebalance.delay.ms=5"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            bootstrap, url = (process.stdout.readline().strip() for _ in range(2))
            assert len(bootstrap.split(",")) == 3
            with urllib.request.urlopen(f"{url}/cluster", timeout=10) as answer:
                assert json.load(answer)["bootstrap"] == bootstrap
            request = urllib.request.Request(f"{url}/brokers/0/kill", b"{}", {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as answer:
                assert not json.load(answer)["is_running"]
            process.send_signal(signal.SIGTERM)
            out, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out, said) == (0, "", "")


def test_the_cluster_stops_when_its_parent_ends() -> None:
    parent = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({[*START, '--brokers', '2', '--print-bootstrap', '--log-level', 'info']!r},"
        " stdout=subprocess.PIPE)\n"
        "print(child.stdout.readline().decode().strip(), flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", parent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().strip().split(",")[1]
        host, _, port = address.partition(":")
        socket.create_connection((host, int(port))).close()
        process.kill()
        rest = process.stderr.read()  # it ends with the cluster, which has the other end
    assert "Stopping: the process that started this one has ended" in rest
    assert rest.splitlines()[-1].endswith("Stopped")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--brokers", "0"], 1, "a cluster of 0 brokers can't be had: ask for 1 to 64"),
        (["--brokers", "1000"], 1, "a cluster of 1000 brokers can't be had: ask for 1 to 64"),
        (["--brokers", "many"], 2, "argument --brokers: invalid int value: 'many'"),
        (["--port", "70000"], 2, "argument --port: invalid port value: '70000'"),
        (["--port", "65534"], 1, "3 ports from 65534 on don't exist: the highest port is 65535"),
        (["--racks", "a,,b"], 1, "--racks 'a,,b' has a rack without a name: write --racks a,b,c"),
        (["--data", ""], 1, "--data '' names no directory: write --data DIR, or leave --data out for a temporary one"),
        (["--data", "/dev/null"], 1, "/dev/null can't be used as a data directory: Not a directory"),
        (["--data", "/dev/null/x"], 1, "/dev/null/x can't be used as a data directory: Not a directory"),
        (["broker.id=3"], 1, "broker.id can't be a setting of the whole cluster: the brokers are numbered from 0"),
        (["log.dirs=x"], 1, "log.dirs can't be a setting of the whole cluster: use --data"),
        (["num.partition=3"], 1, "there is no configuration key 'num.partition'; did you mean 'num.partitions'?"),
        (["num.partitions=no"], 1, "Invalid value no for configuration num.partitions: Not a number of type INT"),
        (["three"], 1, "'three' is no setting: write key=value"),
    ],
)
def test_an_invalid_command_line_is_reported_in_one_sentence(arguments: list[str], code: int, message: str) -> None:
    refused = _refused(*arguments)
    assert refused.returncode == code
    assert refused.stdout == ""
    assert refused.stderr.endswith(f"{message}\n")
    assert code == 2 or refused.stderr == f"kafkapy: {message}\n"


def test_a_control_port_is_no_port_of_a_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    refused = _refused("--brokers", "1", "--port", str(port), "--control-port", str(port))
    assert refused.returncode == 1
    assert refused.stderr == f"kafkapy: the control port {port} is the port of a broker; choose another one\n"


def test_a_port_in_use_is_reported_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = _refused("--port", str(port - 1))
    assert refused.returncode == 1
    assert re.fullmatch(
        rf"kafkapy: port ({port}|{port - 1}) of 127\.0\.0\.1 is not available \(Address already in use\); "
        "choose another one, or 0 for a free one\n",
        refused.stderr,
    )


@pytest.fixture
def restored_process() -> Iterator[None]:
    """The root logger and the handlers of signals as they were."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    root.handlers[:], root.level = handlers, level
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("restored_process")
@pytest.mark.parametrize("options", [[], ["--print-bootstrap"]])
def test_start_in_this_process(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    printed = cluster_start.print_lines

    def stop_then_print(lines: list[str], stopped: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        printed(lines, stopped)  # type: ignore[arg-type]

    monkeypatch.setattr(cluster_start, "print_lines", stop_then_print)
    words = ["--brokers", "2", "--port", "0", "--control-port", "0", "--log-level", "info", *options]
    assert cli.main(["cluster", "start", *words]) == 0
    out, said = capfd.readouterr()
    assert len(out.splitlines()) == (2 if options else 11)
    assert "Stopping: SIGTERM" in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("restored_process")
def test_a_signal_ends_a_start(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    start = cluster_start.HostedCluster.start

    async def interrupted(self: cluster_start.HostedCluster) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await start(self)

    monkeypatch.setattr(cluster_start.HostedCluster, "start", interrupted)
    assert cluster_start.run(parse(["--brokers", "2", "--port", "0", "--log-level", "info"])) == 0
    out, said = capfd.readouterr()
    assert out == ""
    assert "Stopped before the start was complete" in said


def test_help_shows_options_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for run in (
        lambda: cli.main(["cluster", "start", "--help"]),
        lambda: app.build(["cluster"])(["cluster", "start", "--help"], standalone_mode=False),
    ):
        with pytest.raises(SystemExit) as stopped:
            run()
        assert stopped.value.code == 0
        shown = capsys.readouterr().out
        for text in ("usage: kafkapy cluster start", "--brokers N", "--data DIR", "--control-port", "examples:"):
            assert text in shown


def test_completion_offers_all_options() -> None:
    import inspect

    completed = {f"--{name.replace('_', '-')}" for name in inspect.signature(cluster.start_options).parameters}
    assert completed == set(re.findall(r"--[a-z-]+", cluster_options.parser().format_usage()))


_IMPORTS = "import sys; from kafkapy.cli import main as cli; cli.main(['cluster', 'start', '--brokers', '0'])"


def test_start_imports_no_other_command() -> None:
    program = f"{_IMPORTS}; print(*sys.modules)"
    environment = {**os.environ, "COVERAGE_PROCESS_START": ""}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, env=environment, check=True
    )
    assert {"typer", "click", "rich", "kazoo"}.isdisjoint(result.stdout.split())
