"""Exactly once, while broker and client are killed. The test starts its own kafkapy, independent of `--target`."""

from pathlib import Path

from compat_tests.chaos.copier import MOST_RECORDS
from compat_tests.chaos.exactly_once import ExactlyOnce


def test_every_record_is_copied_once(tmp_path: Path) -> None:
    run = ExactlyOnce(tmp_path / "broker", records=600, seed=7)
    assert run.run() >= 600 / MOST_RECORDS
    assert sum(run.kills.values()) > 0
