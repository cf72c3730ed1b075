from pathlib import Path

import pytest

from compat_tests.report import compatibility
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.server.handlers import REGISTRY


def test_the_committed_page_is_fresh() -> None:
    assert compatibility.PAGE.read_text() == compatibility.page()


def test_a_stale_page_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compatibility, "ROOT", tmp_path)
    monkeypatch.setattr(compatibility, "PAGE", tmp_path / "compatibility.md")
    assert compatibility.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().err
    assert compatibility.main([]) == 0
    assert compatibility.main(["--check"]) == 0


def test_unreadable_results_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = compatibility.PAGE.read_text()
    assert compatibility.main(["--results", str(tmp_path / "none.json")]) == 1
    assert "No such file" in capsys.readouterr().err
    assert compatibility.PAGE.read_text() == before


def test_every_api_of_the_registry_has_a_row_and_a_card() -> None:
    lines = compatibility.page().splitlines()
    for api in REGISTRY.values():
        assert any(line.startswith(f"| {int(api.key)} | ") for line in lines)
        assert compatibility.card(api.module)


def test_no_version_is_advertised_that_kafka_2_7_does_not_have() -> None:
    for api in REGISTRY.values():
        low, high = compatibility.KAFKA_2_7[int(api.key)]
        assert low <= api.min_version <= api.max_version <= high, ApiKey(api.key).name


def test_unsupported_features_are_read_from_the_card() -> None:
    text = "Fetch v4.\n\nDone: much.\nNot done: v0-3; that\nother thing.\nErrors: 1."
    assert compatibility.not_done(text) == "v0-3; that other thing"
    assert compatibility.not_done("Heartbeat.\n\nErrors: 15.") == ""
