"""The generator: version ranges, the merge of two releases, and that the committed code is fresh."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.codegen import __main__ as codegen
from tools.codegen import definitions, names
from tools.codegen.merge import MergeError, merge, merge_all
from tools.codegen.model import NO_VERSIONS, Field, Message, Struct, Versions


def message(name: str, versions: Versions, *fields: Field, kind: str = "request", api_key: int | None = 1) -> Message:
    return Message(name, kind, api_key, versions, Versions(2, versions.high), {name: Struct(name, list(fields))})


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3", (3, 3)), ("1-4", (1, 4)), ("2+", (2, 9)), ("none", (0, -1)), (None, (0, -1)), ("5-20", (5, 9))],
)
def test_versions_parse(text: str | None, versions: tuple[int, int]) -> None:
    assert Versions.parse(text, 9) == versions


def test_versions() -> None:
    assert Versions(1, 4).intersect(Versions(3, 9)) == (3, 4)
    assert Versions(1, 2).intersect(Versions(3, 9)) == NO_VERSIONS
    assert not NO_VERSIONS
    assert Versions(1, 2).union(Versions(3, 9)) == (1, 9)
    assert NO_VERSIONS.union(Versions(3, 9)) == (3, 9)
    with pytest.raises(ValueError, match="gap"):
        Versions(1, 2).union(Versions(4, 9))
    assert [Versions(*pair).text(9) for pair in [(1, 9), (2, 2), (2, 3), (0, -1)]] == ["1+", "2", "2-3", "none"]
    assert 3 in Versions(3, 3)


def test_merge_matches_renamed_fields_by_position_and_tag() -> None:
    older = message(
        "FooRequest",
        Versions(0, 3),
        Field("TimeoutMs", "int32", Versions(0, 3)),
        Field("Old", "string", Versions(0, 1)),
        Field("Extra", "string", Versions(2, 3), tagged=Versions(2, 3), tag=0),
    )
    newer = message(
        "FooRequest",
        Versions(1, 5),
        Field("Timeout", "int32", Versions(1, 5)),
        Field("Fresh", "int8", Versions(4, 5)),
        Field("Renamed", "string", Versions(2, 5), tagged=Versions(2, 5), tag=0),
    )
    merged = merge(older, newer)
    assert [(field.name, field.versions) for field in merged.top.fields] == [
        ("TimeoutMs", (0, 5)),
        ("Old", (0, 1)),
        ("Fresh", (4, 5)),
        ("Extra", (2, 5)),
    ]
    assert merged.versions == (0, 5)
    assert definitions.load(definitions.dump(merged)) == merged


def test_merge_refuses_what_does_not_match() -> None:
    older = message("FooRequest", Versions(0, 1), Field("A", "int32", Versions(0, 1)))
    with pytest.raises(MergeError, match="int64"):
        merge(older, message("FooRequest", Versions(0, 2), Field("A", "int64", Versions(0, 2))))
    with pytest.raises(MergeError, match="0 in the newer"):
        merge(older, message("FooRequest", Versions(0, 2), Field("B", "int32", Versions(2, 2))))


def test_merge_all_goes_by_api_key_and_adds_what_is_new() -> None:
    older = {"FooRequest": message("FooRequest", Versions(0, 1), Field("A", "int32", Versions(0, 1)))}
    newer = {
        "BarRequest": message("BarRequest", Versions(0, 1), Field("A", "int32", Versions(0, 1))),
        "BazRequest": message("BazRequest", Versions(0, 0), Field("A", "int8", Versions(0, 0)), api_key=2),
    }
    assert list(merge_all(older, newer)) == ["FooRequest", "BazRequest"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TransactionalId", "transactional_id"),
        ("isKRaftController", "is_kraft_controller"),
        ("ISR", "isr"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("From", "from_"),
        ("OffsetForLeaderEpoch", "offset_for_leader_epoch"),
    ],
)
def test_snake_case(name: str, expected: str) -> None:
    assert names.snake_case(name) == expected


def test_no_module_for_an_unknown_record() -> None:
    with pytest.raises(KeyError):
        names.module_name(message("SomethingElse", Versions(0, 0), kind="data", api_key=None))


def test_generated_code_is_fresh() -> None:
    assert codegen.stale() == []


def test_a_changed_file_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = codegen.generate(tmp_path)
    (tmp_path / "pyproject.toml").write_text((codegen.ROOT / "pyproject.toml").read_text())
    monkeypatch.setattr(codegen, "ROOT", tmp_path)
    assert codegen.stale() == []
    path = next(iter(fresh))
    (tmp_path / path).write_text("changed\n")
    (tmp_path / codegen.PROTOCOL / "messages" / "gone.py").write_text("")
    assert codegen.stale() == sorted([str(path), "kafkapy/protocol/messages/gone.py"])
    codegen.write()
    assert codegen.stale() == []


def test_the_command() -> None:
    run = subprocess.run([sys.executable, "-m", "tools.codegen", "--check"], cwd=codegen.ROOT, check=False)
    assert run.returncode == 0
