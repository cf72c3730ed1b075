"""The generator: version ranges, the merge of two releases, what is generated, and that the committed code is fresh."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.definitions import files as definitions
from harness.definitions import names, selection
from harness.definitions.merge import MergeError, merge, merge_all
from harness.definitions.model import NO_VERSIONS, Field, Message, Struct, Versions
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.places import PLACES, WITH_GROUP_ID, WITH_MEMBER_ID
from tools.codegen import __main__ as codegen
from tools.codegen import field_texts
from tools.codegen.places import places

MESSAGES = definitions.load_all()


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


def test_a_field_that_later_versions_lack_is_ignorable_in_them_as_the_newer_release_says() -> None:
    older = message(
        "FooRequest", Versions(0, 1), Field("A", "int32", Versions(0, 1)), Field("B", "int8", Versions(0, 1))
    )
    newer = message(
        "FooRequest",
        Versions(0, 2),
        Field("A", "int32", Versions(0, 1), ignorable=True),
        Field("B", "int8", Versions(0, 1)),
        Field("C", "int64", Versions(2, 2)),
    )
    merged = [(each.name, each.versions, each.ignorable) for each in merge(older, newer).top.fields]
    assert merged == [("A", (0, 1), True), ("B", (0, 1), False), ("C", (2, 2), False)]


def test_merge_refuses_what_does_not_match() -> None:
    older = message("FooRequest", Versions(0, 1), Field("A", "int32", Versions(0, 1)))
    with pytest.raises(MergeError, match="int64"):
        merge(older, message("FooRequest", Versions(0, 2), Field("A", "int64", Versions(0, 2))))
    with pytest.raises(MergeError, match="0 in the newer"):
        merge(older, message("FooRequest", Versions(0, 2), Field("B", "int32", Versions(2, 2))))


def test_merge_all_matches_by_api_key_and_adds_new_messages() -> None:
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


def test_the_module_name_of_an_unknown_data_message_raises() -> None:
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


def test_the_command_checks_for_stale_files() -> None:
    run = subprocess.run([sys.executable, "-m", "tools.codegen", "--check"], cwd=codegen.ROOT, check=False)
    assert run.returncode == 0


# selection of messages


def test_the_messages_that_are_served_or_imported_are_generated_and_no_others() -> None:
    generated = selection.generated_modules(MESSAGES)
    assert {"produce", "leader_and_isr", "consumer_protocol", "stored.offset_commit"} <= generated.keys()
    assert {"vote", "stored.share_group"}.isdisjoint(generated)


def test_imported_messages_are_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sender.py").write_text(
        "from kafkapy.protocol.messages.vote import VoteRequest\n"
        "from kafkapy.protocol.messages.stored import share_group\n"
        "from kafkapy.protocol.messages import envelope, request_class\n"
    )
    monkeypatch.setattr(selection, "PACKAGE", tmp_path)
    generated = selection.generated_modules(MESSAGES)
    assert {"vote", "stored.share_group", "envelope"} <= generated.keys()
    assert "share_fetch" not in generated


# texts of fields


def test_every_generated_field_has_a_text_and_every_text_a_field() -> None:
    members = [message for members in selection.generated_modules(MESSAGES).values() for message in members]
    structs = [struct for message in members for struct, _ in message.reachable()]
    for struct in structs:
        for entry in struct.fields:
            assert field_texts.text_of(struct, names.snake_case(entry.name))
    assert field_texts.unused_texts(structs) == []


def test_texts_fit_into_a_comment() -> None:
    assert [text for text in field_texts.TEXTS.values() if len(text) > 110 or text.endswith(".") or "\n" in text] == []


def test_a_field_without_a_text_is_an_error() -> None:
    with pytest.raises(field_texts.UndocumentedFieldError, match=r"Odd\.never_seen"):
        field_texts.text_of(Struct("Odd", []), "never_seen")


def test_a_text_follows_its_parameter_with_the_versions_of_the_field() -> None:
    source = (codegen.ROOT / codegen.PROTOCOL / "messages" / "heartbeat.py").read_text()
    assert 'group_id: str = "",  # consumer group\n' in source
    assert "group_instance_id: str | None = None,  # v3+: id of a static member; null: a dynamic member\n" in source


# places

IN_FULL = {
    ApiKey.PRODUCE: "TOPIC topic_data.name = responses.name, "
    "PARTITION partition_data.index = partition_responses.index error_code",
    ApiKey.FETCH: "TOPIC topics.topic = responses.topic, "
    "PARTITION partitions.partition = partitions.partition_index error_code",
    ApiKey.LIST_OFFSETS: "TOPIC topics.name = topics.name, "
    "PARTITION partitions.partition_index = partitions.partition_index error_code",
    ApiKey.METADATA: "TOPIC topics.name = topics.name error_code",
    ApiKey.OFFSET_COMMIT: "TOPIC topics.name = topics.name, "
    "PARTITION partitions.partition_index = partitions.partition_index error_code",
    ApiKey.OFFSET_FETCH: "TOPIC topics.name = topics.name, "
    "PARTITION partition_indexes. = partitions.partition_index error_code",
    ApiKey.DESCRIBE_GROUPS: "GROUP groups. = groups.group_id error_code",
    ApiKey.CREATE_TOPICS: "TOPIC topics.name = topics.name error_code",
    ApiKey.DELETE_TOPICS: "TOPIC topic_names. = responses.name error_code",
    ApiKey.DELETE_RECORDS: "TOPIC topics.name = topics.name, "
    "PARTITION partitions.partition_index = partitions.partition_index error_code",
    ApiKey.ELECT_LEADERS: "TOPIC topic_partitions.topic = replica_election_results.topic, "
    "PARTITION partitions. = partition_result.partition_id error_code",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "TOPIC topics.name = responses.name, "
    "PARTITION partitions.partition_index = partitions.partition_index error_code",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "TOPIC topics.topic = topics.topic, "
    "PARTITION partitions.partition = partitions.partition error_code",
    ApiKey.ADD_PARTITIONS_TO_TXN: "TOPIC v3_and_below_topics.name = results_by_topic_v3_and_below.name, "
    "PARTITION partitions. = results_by_partition.partition_index partition_error_code",
    ApiKey.WRITE_TXN_MARKERS: "PRODUCER markers.producer_id = markers.producer_id, TOPIC topics.name = topics.name, "
    "PARTITION partition_indexes. = partitions.partition_index error_code",
    ApiKey.TXN_OFFSET_COMMIT: "TOPIC topics.name = topics.name, "
    "PARTITION partitions.partition_index = partitions.partition_index error_code",
    ApiKey.DESCRIBE_CONFIGS: "RESOURCE resources.resource_name = results.resource_name error_code",
    ApiKey.ALTER_CONFIGS: "RESOURCE resources.resource_name = responses.resource_name error_code",
    ApiKey.CREATE_PARTITIONS: "TOPIC topics.name = results.name error_code",
    ApiKey.DELETE_GROUPS: "GROUP groups_names. = results.group_id error_code",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "RESOURCE resources.resource_name = responses.resource_name error_code",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "GROUP group_ids. = groups.group_id error_code",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "TOPIC topics.name = topics.name error_code",
    ApiKey.DESCRIBE_PRODUCERS: "TOPIC topics.name = topics.name, "
    "PARTITION partition_indexes. = partitions.partition_index error_code",
    ApiKey.OFFSET_DELETE: "TOPIC topics.name = topics.name, "
    "PARTITION partitions.partition_index = partitions.partition_index error_code",
}
"""The places of all APIs as they were written by hand before they came from the definitions, and Metadata's topics."""


@pytest.mark.parametrize("key", PLACES.keys() | IN_FULL.keys(), ids=lambda key: ApiKey(key).name)
def test_the_places_of_each_api(key: ApiKey) -> None:
    found = [
        f"{place.role.name} {place.request}.{place.named} = {place.response}.{place.answered} {place.error}".strip()
        for place in PLACES[key]
    ]
    assert ", ".join(found) == IN_FULL[key]


def test_places_depend_on_the_version() -> None:
    """AddPartitionsToTxn has a list of transactions from version 4 on."""
    request, response = MESSAGES["AddPartitionsToTxnRequest"], MESSAGES["AddPartitionsToTxnResponse"]
    assert [place.asked.field for place in places(request, response, Versions(4, 5))] == []
    assert [place.asked.field for place in places(request, response, Versions(0, 3))] == [
        "v3_and_below_topics",
        "partitions",
    ]


def test_requests_of_one_group_and_of_a_member() -> None:
    assert {ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.OFFSET_DELETE, ApiKey.OFFSET_FETCH} == WITH_GROUP_ID - WITH_MEMBER_ID
    assert {
        ApiKey.OFFSET_COMMIT,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    } == WITH_MEMBER_ID
