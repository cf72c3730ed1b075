"""The command handles start and --version before it imports the other commands."""

import re
import subprocess
import sys

import pytest

from kafkapy import __version__
from kafkapy.cli import main as cli


def test_version_shows_which_scan_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    shown = capsys.readouterr().out
    assert re.fullmatch(rf"kafkapy {re.escape(__version__)} \(record scan (compiled|interpreted)\)\n", shown)


def test_version_loads_neither_the_broker_nor_the_commands() -> None:
    program = "import sys; from kafkapy.cli import main as cli; cli.main(['--version']); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    modules = result.stdout.split()
    assert {"typer", "rich", "asyncio", "kafkapy.server.lifecycle.broker"}.isdisjoint(modules)


def test_start_gets_the_arguments_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["start", "--help"])
    assert stopped.value.code == 0
    assert "usage: kafkapy start" in capsys.readouterr().out
