"""Answers to members and about groups, and stored records, compared field by field with those of Apache Kafka 2.7.2."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cases import RECORDED, group_cases, offset_cases, protocol_cases, static_member_cases, stored_group_cases
from harness.cases.group_cases import comparable, connected, make_topics
from harness.wire import Wire
from tests.server.beside import broker_beside

PATIENCE_S = 0.01
ANSWERS: dict[str, Any] = json.loads((RECORDED / "group_answers.json").read_text())
RECORDS: dict[str, Any] = json.loads((RECORDED / "group_records.json").read_text())
CONVERSATIONS = {
    **group_cases.CONVERSATIONS,
    **static_member_cases.CONVERSATIONS,
    **offset_cases.CONVERSATIONS,
    **protocol_cases.CONVERSATIONS,
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker_beside(tmp_path_factory.mktemp("groups")) as broker:
        with Wire(broker.bootstrap) as wire:
            make_topics(wire)
        yield broker.bootstrap


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_answers_are_kafkas(bootstrap: str, name: str) -> None:
    group = f"group-{list(CONVERSATIONS).index(name)}"
    with connected(bootstrap, group, patience_s=PATIENCE_S) as talk:
        CONVERSATIONS[name](talk)
    assert comparable(talk.transcript) == comparable(ANSWERS[name])


@pytest.mark.parametrize("name", [name for name in ANSWERS if name.startswith("protocol 2.2: ")])
def test_static_members_are_refused_below_2_3(tmp_path: Path, name: str) -> None:
    with broker_beside(tmp_path, inter__broker__protocol__version="2.2") as broker:
        with Wire(broker.bootstrap) as wire:
            make_topics(wire)
        with connected(broker.bootstrap, "group", patience_s=PATIENCE_S) as talk:
            static_member_cases.CONVERSATIONS[name.partition(": ")[2]](talk)
    assert comparable(talk.transcript) == comparable(ANSWERS[name])


@pytest.mark.parametrize("name", stored_group_cases.CONFIGURATIONS)
def test_the_records_are_kafkas(tmp_path: Path, name: str) -> None:
    keys = {key.replace(".", "__"): value for key, value in stored_group_cases.CONFIGURATIONS[name].items()}
    with broker_beside(tmp_path, **keys) as broker:
        with Wire(broker.bootstrap) as wire:
            make_topics(wire)
        with connected(broker.bootstrap, "some-group", patience_s=PATIENCE_S) as talk:
            stored_group_cases.a_life(talk)
        written = stored_group_cases.stored(talk, tmp_path)
    assert stored_group_cases.comparable(written) == stored_group_cases.comparable(RECORDS[name])
