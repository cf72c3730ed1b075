"""A test that hangs beyond pytest-timeout's reach ends its process, with the stacks, and the run continues."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from harness import watchdog
watchdog.GRACE_S = 0.5
pytest_configure = watchdog.watch
"""
DEAF = """
import pytest, signal, time

def hang():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # as in a library that doesn't come back
    time.sleep(60)
"""
OTHERS = "\n" + "\n".join(f"def test_other_{number}(): pass" for number in range(4))
HANGS = {
    "test": "def test_hangs(): hang()",
    "set-up": "@pytest.fixture\ndef it(): hang()\ndef test_hangs(it): pass",
    "clean-up": "@pytest.fixture\ndef it():\n yield\n hang()\ndef test_hangs(it): pass",
    "clean-up after a time-out": "def test_hangs():\n try: time.sleep(60)\n finally: hang()",
    "clean-up after a failure": "@pytest.fixture\ndef it():\n yield\n hang()\ndef test_hangs(it): assert 0",
}

TOLD = {"clean-up": " 1 failed, 5 passed", "clean-up after a failure": " 2 failed, 4 passed"}
"""The result of the test is reported before its clean-up hangs."""


def run(directory: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest on these tests, with a time-out of 0.5 s."""
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "pytest.ini").write_text("[pytest]\ntimeout = 0.5\n")
    (directory / "test_it.py").write_text(DEAF + tests)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-p", "no:kafkapy", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("place", HANGS)
def test_the_run_goes_on(tmp_path: Path, place: str) -> None:
    ended = run(tmp_path, HANGS[place] + OTHERS, "-n", "1")
    assert "crashed while running 'test_it.py::test_hangs'" in ended.stdout
    assert "in hang" in ended.stderr
    assert TOLD.get(place, " 1 failed, 4 passed") in ended.stdout.splitlines()[-1]
    assert ended.returncode == 1


@pytest.mark.parametrize(
    ("decorator", "arguments"),
    [("", ["--timeout=0"]), ("@pytest.mark.timeout(0)\n", []), ("@pytest.mark.timeout(20)\n", ["--timeout=0.1"])],
)
def test_it_waits_as_long_as_a_test_may_take(tmp_path: Path, decorator: str, arguments: list[str]) -> None:
    ended = run(tmp_path, f"{decorator}def test_takes_long(): time.sleep(1)", *arguments)
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr
