import pytest

from kafkapy.metadata.znodes import ConfigChangesZNode, ConfigEntity, ConfigZNode


def test_a_configuration() -> None:
    data = b'{"version":1,"config":{"min.insync.replicas":"2"}}'
    assert ConfigZNode.decode(data) == {"min.insync.replicas": "2"}
    assert ConfigZNode.encode({"min.insync.replicas": "2"}) == data
    assert ConfigZNode.encode({}) == b'{"version":1,"config":{}}'
    assert ConfigZNode.decode(None) == ConfigZNode.decode(b"") == ConfigZNode.decode(b'{"version":1}') == {}
    assert ConfigZNode.path(ConfigEntity.topic("t")) == "/config/topics/t"
    assert ConfigZNode.path(ConfigEntity.broker(2)) == "/config/brokers/2"
    assert ConfigZNode.path(ConfigEntity.broker(None)) == "/config/brokers/<default>"
    assert ConfigZNode.kind_path("users") == "/config/users"


@pytest.mark.parametrize(
    ("data", "entity"),
    [
        (b'{"version":2,"entity_path":"topics/rf1"}', ConfigEntity.topic("rf1")),
        (b'{"version":2,"entity_path":"brokers/<default>"}', ConfigEntity.broker(None)),
        (b'{"version":2,"entity_path":"users/bob/clients/cl1"}', ConfigEntity("users", "bob/clients/cl1")),
        (b'{"version":1,"entity_type":"topics","entity_name":"rf1"}', ConfigEntity.topic("rf1")),
    ],
)
def test_a_note(data: bytes, entity: ConfigEntity) -> None:
    assert ConfigChangesZNode.decode(data) == entity
    assert ConfigChangesZNode.decode(ConfigChangesZNode.encode(entity)) == entity


def test_a_note_about_nothing() -> None:
    with pytest.raises(ValueError, match="entity_type"):
        ConfigChangesZNode.decode(b'{"version":1}')
    assert ConfigChangesZNode.child_path() == "/config/changes/config_change_"
