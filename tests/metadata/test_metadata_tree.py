from uuid import UUID

import pytest

from kafkapy.metadata.exchange.metadata_tree import MetadataError, MetadataTree, is_carried
from kafkapy.metadata.znodes import ConfigZNode, ReplicaAssignment, TopicZNode
from kafkapy.types import TopicPartition
from tests.metadata.metadata_samples import CLUSTER_ID, NODES, tree


def test_the_content_of_a_tree() -> None:
    found = tree()
    found.check()
    assert (found.cluster_id, found.controller_epoch) == (CLUSTER_ID, 7)
    assert found.producer_ids is not None
    assert found.producer_ids.last == 2999
    assert found.replicas() == {TopicPartition("flights", 0): (1,), TopicPartition("flights", 1): (1,)}
    state = found.state(TopicPartition("flights", 0))
    assert state is not None
    assert (state.leader, state.leader_epoch) == (1, 3)
    assert found.state(TopicPartition("other", 0)) is None
    assert found.configs("topics") == {"flights": {"cleanup.policy": "compact"}}
    assert found.configs("users") == {"bob/clients/c": {"producer_byte_rate": "1000"}}
    assert found.configs("clients") == {}


def test_an_empty_tree() -> None:
    empty = MetadataTree({})
    assert (empty.cluster_id, empty.controller_epoch, empty.producer_ids) == (None, 0, None)
    assert empty.topics() == {}
    with pytest.raises(MetadataError, match="no /cluster/id"):
        empty.check()


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/cluster/id", b"{}"),
        ("/controller_epoch", b"many"),
        ("/latest_producer_id_block", b'{"version":1}'),
        ("/brokers/topics/flights", b"[]"),
        ("/brokers/topics/flights", b'{"partitions":{"0":7}}'),
        ("/brokers/topics/flights/partitions/1/state", b"{"),
        ("/config/brokers/<default>", b'"text"'),
        ("/config/topics/flights", b'{"config":["a"]}'),
    ],
)
def test_a_node_that_no_broker_could_read_is_named(path: str, data: bytes) -> None:
    with pytest.raises(MetadataError, match=f"^{path} does not hold what Kafka keeps there"):
        MetadataTree({**NODES, path: data}).check()


@pytest.mark.parametrize(
    ("path", "data", "said"),
    [
        ("/brokers/topics/flights", b'{"partitions":{"0":["x"],"1":[1]}}', "names no brokers for partition 0"),
        ("/brokers/topics/flights", b'{"partitions":{"0":[1],"1":[]}}', "names no brokers for partition 1"),
        ("/brokers/topics/flights", b'{"partitions":{"0":[-1]}}', "names no brokers for partition 0"),
        ("/brokers/topics/fl ights", b'{"partitions":{"0":[1]}}', "contains a character other than ASCII"),
        (
            "/brokers/topics/flights/partitions/1/state",
            b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":["x"]}',
            "names no brokers in sync",
        ),
    ],
)
def test_metadata_that_no_broker_could_start_with_is_named(path: str, data: bytes, said: str) -> None:
    with pytest.raises(MetadataError, match=f"^{path}.*{said}"):
        MetadataTree({**NODES, path: data}).check()


@pytest.mark.parametrize(
    ("path", "carried"),
    [
        ("/brokers/topics/a/partitions/0/state", True),
        ("/config/changes", True),
        ("/config/changes/config_change_0000000001", False),
        ("/delegation_token/tokens/x", True),
        ("/delegation_token/token_changes/token_change_0000000000", False),
        ("/kafka-acl/Topic/a", True),
        ("/kafka-acl-changes/acl_changes_0000000000", False),
        ("/brokers/ids/1", False),
        ("/brokers", False),
        ("/controller", False),
        ("/controller_epoch", True),
        ("/isr_change_notification", False),
        ("/zookeeper/quota", False),
        ("/clusters/mine", False),
    ],
)
def test_persistent_nodes_are_carried(path: str, carried: bool) -> None:
    assert is_carried(path) is carried


def test_kafkapys_own_keys_are_not_exported_to_kafka() -> None:
    path = "/config/topics/flights"
    ours = MetadataTree({**NODES, path: ConfigZNode.encode({"cleanup.policy": "compact", "kafkapy.flush": "ack"})})
    assert ours.for_kafka().configs("topics") == {"flights": {"cleanup.policy": "compact"}}
    assert ours.own_keys() == ["kafkapy.flush of topics flights"]
    assert dict(tree().for_kafka().nodes) == dict(tree().nodes)
    assert tree().own_keys() == []


@pytest.mark.parametrize(("ids", "sequence"), [([1004, 7], 4), ([1001], 1), ([7], 1), ([], 1)])
def test_ids_of_brokers_are_not_generated_again(ids: list[int], sequence: int) -> None:
    assert tree().with_ids_taken(ids, 1000).broker_id_sequence == sequence


def test_own_keys_return_to_the_existing_nodes() -> None:
    own = b'{"version":1,"config":{"cleanup.policy":"delete","kafkapy.flush":"ack"}}'
    ours = MetadataTree({**NODES, "/config/topics/flights": own, "/config/topics/gone": own})
    back = tree().with_own_keys_of(ours)
    assert back.configs("topics") == {"flights": {"kafkapy.flush": "ack", "cleanup.policy": "compact"}}
    assert back.for_kafka().configs("topics") == {"flights": {"cleanup.policy": "compact"}}
    assert tree().with_own_keys_of(tree()) == tree()


def test_ids_that_folders_keep_are_taken_for_topics_that_have_none() -> None:
    given, kept, assigned = UUID(int=1), UUID(int=2), {0: ReplicaAssignment((1,))}
    nodes = {
        TopicZNode.path("old"): TopicZNode(assigned).encode(),
        TopicZNode.path("new"): TopicZNode(assigned, kept).encode(),
        TopicZNode.path("other"): TopicZNode(assigned).encode(),
    }
    topics = MetadataTree(nodes).with_topic_ids({"old": given, "new": given, "gone": given}).topics()
    assert {name: topic.topic_id.int for name, topic in topics.items()} == {"old": 1, "new": 2, "other": 0}
