"""``tests/server/test_cluster.py`` has brokers whose stores are exported."""

from pathlib import Path

import pytest

from kafkapy.metadata.exchange.exported import set_aside


def test_files_that_cannot_be_renamed_are_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = tmp_path / "kafkapy-metadata.sqlite"
    set_aside(str(store))
    store.touch()
    (tmp_path / "kafkapy-metadata.sqlite.exported").mkdir()
    set_aside(str(store))
    assert f"{store} could not be renamed and must not be used again" in caplog.text
    assert store.exists()
