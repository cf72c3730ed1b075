"""The whole command line: help for everything, and one line when something is wrong."""

import inspect
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from kafkapy.cli import app, options, start_options
from tests.cli.conftest import Run

GROUPS = {
    "topics": ["list", "describe", "create", "delete", "alter", "reassign", "elect"],
    "groups": ["list", "describe", "delete", "reset-offsets"],
    "configs": ["describe", "alter"],
    "metadata": ["export", "import"],
    "log": ["dump", "verify", "repair"],
}


def test_help_names_every_command_with_examples(run: Run) -> None:
    shown = run("--help")
    assert shown.code == 0
    for name in (
        "start",
        "cluster",
        "brokers",
        "produce",
        "consume",
        *GROUPS,
        "Examples:",
        "--install-completion",
        "kafkapy start --data",
    ):
        assert name in shown.out


@pytest.mark.parametrize(("group", "names"), GROUPS.items(), ids=list(GROUPS))
def test_every_command_of_a_group_has_help_with_examples(run: Run, group: str, names: list[str]) -> None:
    listed = run(group, "--help")
    for name in names:
        assert name in listed.out
        shown = run(group, name, "--help")
        assert shown.code == 0
        assert "Examples:" in shown.out
        assert f"kafkapy {group} {name}" in shown.out


@pytest.mark.parametrize("name", ["brokers", "produce", "consume"])
def test_the_other_commands_have_help_with_examples(run: Run, name: str) -> None:
    shown = run(name, "-h")
    assert shown.code == 0
    assert "Examples:" in shown.out


def test_start_is_part_of_help_and_completion(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        app.build(["start"])(["start", "--help"], standalone_mode=False)
    assert stopped.value.code == 0
    assert "usage: kafkapy start" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", {"start", "topics", "produce"}),
        ("topics ", {"list", "create"}),
        ("topics create --", {"--partitions", "--config"}),
        ("cluster ", {"start"}),
        ("cluster start --", {"--brokers", "--data", "--racks", "--control-port"}),
        ("start --", {"--data", "--port", "--config", "--ephemeral", "--log-level", "--log-json"}),
    ],
)
def test_a_shell_completes_commands_and_options(typed: str, offered: set[str]) -> None:
    words = f"kafkapy {typed}"
    asked = {"_KAFKAPY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    shown = subprocess.run(
        [sys.executable, "-m", "kafkapy"], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert offered <= set(shown.stdout.split())


def test_completion_offers_all_options_of_start() -> None:
    completed = {f"--{name.replace('_', '-')}" for name in inspect.signature(app._start_options).parameters}
    assert completed == set(re.findall(r"--[a-z-]+", start_options.parser().format_usage()))


def test_version_among_other_words(run: Run) -> None:
    assert run("--version", "topics").out.startswith("kafkapy ")


@pytest.mark.parametrize(
    "words", [["nonsense"], ["topics", "nonsense"], ["topics", "create"], ["topics", "list", "--no"]]
)
def test_an_invalid_command_line_shows_the_usage(run: Run, words: list[str]) -> None:
    refused = run(*words)
    assert refused.code == 2
    assert "Usage: kafkapy" in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "list"],
        ["brokers"],
        ["topics", "elect"],
        ["groups", "list"],
        ["consume", "t"],
        ["configs", "describe", "brokers"],
    ],
)
def test_an_unreachable_broker_is_reported_in_one_line(run: Run, words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    refused = run(*words, "--bootstrap", f"127.0.0.1:{port}")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == f"kafkapy: no broker answers at 127.0.0.1:{port}: Connection refused\n"


def test_a_closed_output_pipe_causes_no_traceback(bootstrap: str) -> None:
    """As in ``kafkapy … | head -1``."""
    command = [sys.executable, "-m", "kafkapy", "configs", "describe", "broker", "0", "--all", "-b", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_completion_knows_the_commands() -> None:
    environment = {"_KAFKAPY_COMPLETE": "complete_bash", "COMP_WORDS": "kafkapy top", "COMP_CWORD": "1", "PATH": "/bin"}
    program = "import sys; sys.argv[0] = 'kafkapy'; from kafkapy.cli.main import main; sys.exit(main([]))"
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=30, check=True
    )
    assert result.stdout.split() == ["topics"]


def test_the_options_reach_the_log_commands(run: Run, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.index")
    for words in (
        ["dump", missing, "-r", "--decoder", "none", "--from-offset", "1", "--limit", "2", "--json"],
        ["verify", missing, "--headers-only", "--json"],
        ["repair", missing, "--whole", "--dry-run", "--yes", "--json"],
    ):
        ended = run("log", *words)
        assert ended.code == 1
        assert missing in ended.err
        assert ended.err.count("\n") == 1


def test_the_default_broker_is_on_this_machine() -> None:
    assert options.DEFAULT_BOOTSTRAP == "127.0.0.1:9092"
    assert get_args(options.Bootstrap)[1].envvar == "KAFKAPY_BOOTSTRAP"


@pytest.mark.parametrize("way", ["export", "import"])
def test_the_options_reach_the_metadata_commands(run: Run, tmp_path: Path, way: str) -> None:
    words = ["--data", f"{tmp_path}/none", "--file", "f", "--overwrite", "--dry-run", "--json"]
    refused = run("metadata", way, *words)
    assert refused.code == 1
    assert refused.err == f"kafkapy: data directory {tmp_path}/none does not exist: give another one with --data\n"
