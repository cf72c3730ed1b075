"""The places as such; that they hold what was written is ``test_metadata``'s."""

import io
import sys
from pathlib import Path

import pytest

from kafkapy.cli.metadata_run import DocumentPlace, MetadataPlace, OwnPlace, ZooKeeperPlace
from kafkapy.metadata.exchange import zookeeper_tree
from kafkapy.metadata.exchange.metadata_changes import changes
from kafkapy.metadata.exchange.metadata_json import encode_document
from kafkapy.metadata.exchange.metadata_tree import MetadataTree
from tests.metadata.fake_zookeeper import SERVERS, FakeZooKeeper
from tests.metadata.metadata_samples import tree


@pytest.mark.parametrize("kind", ["own", "document", "zookeeper"])
def test_a_place_is_empty_then_holds_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(zookeeper_tree, "KazooClient", FakeZooKeeper().client)
    place: MetadataPlace = {
        "own": OwnPlace(str(tmp_path)),
        "document": DocumentPlace(str(tmp_path / "m.json")),
        "zookeeper": ZooKeeperPlace(f"{SERVERS}/kafka"),
    }[kind]
    names = {"own": f"{tmp_path}/kafkapy-metadata.sqlite", "document": f"{tmp_path}/m.json"}
    assert str(place) == names.get(kind, f"{SERVERS}/kafka")
    assert place.read() == MetadataTree({})
    place.write(tree(), changes(tree(), MetadataTree({})), 1)
    assert changes(tree(), place.read()) == []


def test_a_document_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(encode_document(tree()))))
    assert DocumentPlace("-").read() == tree()
