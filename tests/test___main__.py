"""``python -m kafkapy`` is the command."""

import subprocess
import sys

from kafkapy import __version__


def test_python_m_kafkapy_runs_the_command() -> None:
    command = [sys.executable, "-m", "kafkapy", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert result.stdout.startswith(f"kafkapy {__version__} ")
