import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness import jars


def _fake_fetch(version: str, target: Path, work: Path) -> None:
    (target / f"kafka_2.13-{version}.jar").write_text(work.name)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jars, "CACHE", tmp_path)
    return tmp_path


def test_a_fetched_version_appears_whole_and_is_not_fetched_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "fetchers", lambda: {"ivy": _fake_fetch})
    target = jars.fetch("9.9.9")
    assert [jar.name for jar in target.iterdir()] == ["kafka_2.13-9.9.9.jar"]
    assert [path.name for path in (cache / "jars").iterdir()] == ["kafka-9.9.9"]
    monkeypatch.setattr(jars, "fetchers", dict)
    assert jars.fetch("9.9.9") == target


def test_a_fetch_without_the_main_jar_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "fetchers", lambda: {"ivy": lambda *_: None})
    with pytest.raises(jars.JarsError, match="main jar"):
        jars.fetch("9.9.9")
    assert list((cache / "jars").iterdir()) == []


def test_a_resolver_that_is_not_installed_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "fetchers", lambda: {"ivy": _fake_fetch})
    with pytest.raises(jars.JarsError, match="maven is not installed"):
        jars.fetch("9.9.9", "maven")


def test_maven_is_preferred_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert list(jars.fetchers()) == ["maven", "ivy"]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert list(jars.fetchers()) == ["ivy"]


@pytest.mark.parametrize("document", [jars.pom, jars.ivy_module])
def test_both_resolvers_get_the_same_dependencies(document: object) -> None:
    assert callable(document)
    text = document("4.4.0")
    ElementTree.fromstring(text)
    for _, artifact, number in jars.dependencies("4.4.0"):
        assert artifact in text
        assert number in text


def test_the_oldest_release_has_its_own_logging_binding() -> None:
    assert "slf4j-simple" not in [artifact for _, artifact, _ in jars.dependencies("2.7.2")]


def test_the_class_path_has_one_logging_binding(cache: Path) -> None:
    directory = jars.jars_directory("2.7.2")
    directory.mkdir(parents=True)
    for name in ("slf4j-log4j12-1.jar", "slf4j-simple-1.jar", "kafka_2.13-2.7.2.jar"):
        (directory / name).touch()
    names = [Path(part).name for part in jars.class_path("2.7.2").split(":")]
    assert names == ["kafka_2.13-2.7.2.jar", "slf4j-log4j12-1.jar"]


def test_a_class_path_that_was_not_fetched_says_how_to(cache: Path) -> None:
    with pytest.raises(jars.JarsError, match=r"python -m harness.jars 1\.0"):
        jars.class_path("1.0")


def test_a_failing_resolver_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = subprocess.CompletedProcess([], 1, "resolving\n[ERROR] no route to host\nlast line\n", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr(jars, "fetch", lambda *_: jars._run(["mvn"], "Maven"))
    monkeypatch.setattr("sys.argv", ["jars", "2.7.2"])
    assert jars.main() == 1
    said = capsys.readouterr().err
    assert said == "jars: Maven failed ([ERROR] no route to host); is the network there?\n"


def test_the_option_long_fetches_the_jars_of_the_long_tests(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    fetched: list[str] = []

    def fetch(version: str, _way: str | None) -> Path:
        fetched.append(version)
        return cache

    monkeypatch.setattr(jars, "fetch", fetch)
    for options, expected in ((["2.7.2"], ["2.7.2"]), (["2.7.2", "--long"], ["2.7.2", *jars.LONG_VERSIONS])):
        fetched.clear()
        monkeypatch.setattr("sys.argv", ["jars", *options])
        assert jars.main() == 0
        assert fetched == expected


@pytest.mark.parametrize(
    ("what", "artifact"),
    [(jars.STREAMS.format("2.7.2"), "kafka-streams"), (jars.CONNECT.format("2.7.2"), "connect-runtime")],
)
def test_streams_and_connect_have_separate_jars(
    cache: Path, monkeypatch: pytest.MonkeyPatch, what: str, artifact: str
) -> None:
    def fetch_artifact(version: str, target: Path, _work: Path) -> None:
        assert jars.dependencies(version)[0] == ("org.apache.kafka", artifact, "2.7.2")
        (target / f"{artifact}-2.7.2.jar").touch()

    monkeypatch.setattr(jars, "fetchers", lambda: {"ivy": fetch_artifact})
    assert jars.fetch(what) == cache / "jars" / f"kafka-{what}"
