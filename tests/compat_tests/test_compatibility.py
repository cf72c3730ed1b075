from pathlib import Path

import pytest

from compat_tests.report import compatibility
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.server.dispatch.releases import SERVED
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


def test_no_version_is_advertised_that_no_release_has() -> None:
    for api in REGISTRY.values():
        ranges = [versions for versions in SERVED[api.key] if versions is not None]
        low, high = min(first for first, _ in ranges), max(last for _, last in ranges)
        assert low <= api.min_version <= api.max_version <= high, ApiKey(api.key).name


def test_apis_that_are_not_served_say_why() -> None:
    assert "| 76 | ShareGroupHeartbeat | – | – | – | 1 | share groups are not built |" in compatibility.page()


def test_unsupported_features_are_read_from_the_card() -> None:
    text = "Fetch v4.\n\nDone: much.\nNot done: v0-3; that\nother thing.\nErrors: 1."
    assert compatibility.not_done(text) == "v0-3; that other thing"
    assert compatibility.not_done("Heartbeat.\n\nErrors: 15.") == ""
