"""The options of ``kafkapy start`` for a trace and a control port, in separate processes."""

import json
import logging
import os
import pty
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.wire import Wire
from kafkapy.cli import start
from kafkapy.cli.settings import UsageError
from kafkapy.cli.start_hooks import StartHooks
from kafkapy.cli.start_options import parse
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest

START = [sys.executable, "-m", "kafkapy", "start", "--ephemeral", "--port", "0"]


@contextmanager
def _running(*arguments: str, **options: Any) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A broker that is ready, and the lines of its log until then."""
    options.setdefault("stdout", subprocess.PIPE)
    with subprocess.Popen([*START, *arguments], stderr=subprocess.PIPE, text=True, **options) as process:
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if "is ready at" in line:
                    break
            yield process, lines
        finally:
            process.kill()


def _bootstrap(lines: list[str]) -> str:
    return lines[-1].split("is ready at ")[1].split(". ")[0]


def _talk(bootstrap: str) -> None:
    with Wire(bootstrap, "app-1") as wire:
        wire.ask(ListGroupsRequest(), 2)
        wire.ask(ApiVersionsRequest("x", "1"), 3)


def test_a_trace_for_machines_and_one_that_is_filtered() -> None:
    with _running("--trace-json", "api=ListGroups client=app-*") as (process, log):
        _talk(_bootstrap(log))
        process.send_signal(signal.SIGTERM)
        out, rest = process.communicate(timeout=10)
    assert process.returncode == 0, rest
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["request", "response"]


def test_a_trace_for_people_is_plain_in_a_pipe() -> None:
    with _running("--trace") as (process, log):
        _talk(_bootstrap(log))
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=10)
    assert " app-1 → ListGroups v2 " in out
    assert " app-1 ← ApiVersions v3 " in out
    assert "\x1b" not in out


@pytest.mark.parametrize(("environment", "colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_used_on_terminals_without_no_color(environment: dict[str, str], colored: bool) -> None:
    controller, terminal = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with _running("--trace", stdout=terminal, env={**inherited, **environment}) as (process, log):
        os.close(terminal)
        _talk(_bootstrap(log))
        shown = b""
        while b"ApiVersions v3" not in shown.partition("←".encode())[2]:
            shown += os.read(controller, 65_536)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
    os.close(controller)
    assert (b"\x1b[36m" in shown) == colored


def test_clients_are_served_while_the_trace_is_not_read() -> None:
    """The pipe and the queue of lines are full: clients are served nevertheless, and the broker can stop."""
    with _running("--trace") as (process, log), Wire(_bootstrap(log), "x" * 2000) as wire:
        for _ in range(200):
            wire.ask(ListGroupsRequest(), 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_control_port_sets_faults_and_advances_the_clock() -> None:
    with _running("--control-port", "0") as (process, log):
        (line,) = [line for line in log if "Control port: " in line]
        url = line.split("Control port: ")[1].split(" ")[0]

        def ask(path: str, **body: Any) -> Any:
            data = json.dumps(body).encode() if body else None
            request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)

        assert ask("broker")["bootstrap"] == _bootstrap(log)
        ask("faults", action="error", error="COORDINATOR_NOT_AVAILABLE", api="ListGroups", nth=2)
        with Wire(_bootstrap(log)) as wire:
            assert [wire.ask(ListGroupsRequest(), 2).error_code for _ in range(3)] == [0, 15, 0]
        assert ask("clock/advance", duration_ms=5_000)["added_ms"] == 5_000
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "Traceback" not in rest


def test_both_addresses_are_printed_and_the_trace_goes_to_standard_error() -> None:
    with _running("--print-bootstrap", "--control-port", "0", "--trace") as (process, log):
        assert process.stdout is not None
        assert process.stdout.readline() == f"{_bootstrap(log)}\n"
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        _talk(_bootstrap(log))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=10)
    assert out == ""
    assert " app-1 → ListGroups v2 " in err


def _refused(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*START, "--log-level", "error", *arguments], check=False, capture_output=True, text=True, timeout=30
    )


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--trace", "api=Prodce"), 1, "kafkapy: this broker serves no API 'Prodce'; did you mean 'Produce'?\n"),
        (("--trace", "num.partitions=4"), 1, "kafkapy: a trace can't be filtered by 'num.partitions=4'; write api=…"),
        (("--trace", "--trace-json"), 2, "not allowed with argument --trace"),
        (("--control-port", "70000"), 2, "argument --control-port: invalid port value"),
    ],
)
def test_invalid_options_are_reported_in_one_line(arguments: tuple[str, ...], code: int, sentence: str) -> None:
    refused = _refused(*arguments)
    assert refused.returncode == code
    assert sentence in refused.stderr


def test_a_control_port_in_use_is_reported_in_one_line() -> None:
    with _running("--control-port", "0") as (_, log):
        port = next(line for line in log if "Control port: " in line).split("127.0.0.1:")[1].split("/")[0]
        refused = _refused("--control-port", port)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert f"port {port} of 127.0.0.1 is in use" in refused.stderr


class StopWhenReady(logging.Filter):
    """Sends this process SIGTERM as soon as the broker logs that it is ready."""

    def filter(self, record: logging.LogRecord) -> bool:
        if "is ready at" in record.getMessage():
            os.kill(os.getpid(), signal.SIGTERM)
        return True


@pytest.mark.parametrize(("options", "addresses"), [([], 0), (["--print-bootstrap"], 2)])
def test_start_with_a_trace_and_a_control_port_in_this_process(
    capfd: pytest.CaptureFixture[str], options: list[str], addresses: int
) -> None:
    root, stop = logging.getLogger(), StopWhenReady()
    handlers, level = list(root.handlers), root.level
    logging.getLogger("kafkapy").addFilter(stop)
    try:
        words = ["--ephemeral", "--port", "0", "--control-port", "0", "--trace", "api=Fetch", *options]
        assert start.run(parse(words)) == 0
    finally:
        logging.getLogger("kafkapy").removeFilter(stop)
        root.handlers[:], root.level = handlers, level
    out, err = capfd.readouterr()
    assert "Control port: http://127.0.0.1:" in err
    assert len(out.splitlines()) == addresses


def test_without_options_there_are_no_hooks(tmp_path: Path) -> None:
    start_hooks = StartHooks()
    start_hooks.open(parse(["--data", str(tmp_path)]))
    assert (start_hooks.hooks.interceptor, start_hooks.hooks.trace, start_hooks.control) == (None, None, None)
    with pytest.raises(UsageError, match="a trace can't be filtered"):
        start_hooks.open(parse(["--trace", "x"]))
