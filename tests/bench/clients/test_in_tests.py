"""A test's process with a broker in it, and others for tests."""

import json
import sys
import tempfile
from pathlib import Path

import pytest

from bench.loads import in_tests
from bench.loads.in_tests import child
from harness.measure import LoadError


@pytest.mark.parametrize("kind", ["kafkapy", "mock"])
def test_it_starts_brokers_and_keeps_the_last(kind: str) -> None:
    command = [sys.executable, "-m", "bench.clients.in_tests", kind, json.dumps({"starts": 2})]
    with child(command) as (process, line):
        metrics = json.loads(line)
        assert metrics["start_ms"] > 0
        assert metrics["resident_mib"] > 0
        assert process.poll() is None
    assert process.returncode == 0
    assert not list(Path(tempfile.gettempdir()).glob(f"kafkapy-{process.pid}-*"))


def test_a_missing_command_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_tests.shutil, "which", lambda _: None)
    with pytest.raises(LoadError, match=r"^kfake wants the go command$"):
        in_tests.built_kfake()
