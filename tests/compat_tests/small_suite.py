"""Runs a small suite of its own the way `compat_tests` are run."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def suite_command(directory: Path, suite: str, *options: str) -> list[str]:
    """Writes the suite; returns the command that runs it."""
    (directory / "conftest.py").write_text("from compat_tests.conftest import *\n")
    (directory / "test_suite.py").write_text(suite)
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", *options, str(directory)]


def suite_environment(**more: str) -> dict[str, str]:
    """The environment to run it in."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **more}


def run_suite(
    directory: Path, *options: str, suite: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The output of the suite and its exit."""
    return subprocess.run(
        suite_command(directory, suite, *options),
        cwd=directory,
        env=suite_environment(**environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
