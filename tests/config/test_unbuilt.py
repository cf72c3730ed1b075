"""What is not built is refused with the key and the reason."""

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.unbuilt import check_built


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"zookeeper.set.acl": "true"}, "set kafkapy.zookeeper.digest to user:password"),
        ({"zookeeper.ssl.client.enable": "true"}, "zookeeper.ssl.client.enable is set: kafkapy has no TLS yet"),
        ({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, "no access control yet"),
        ({"create.topic.policy.class.name": "a.B"}, "can't load Java classes"),
        ({"listeners": "SSL://127.0.0.1:9093"}, r"the listener SSL://127\.0\.0\.1:9093 uses SSL"),
        (
            {"listeners": "IN://:1", "listener.security.protocol.map": "IN:SASL_PLAINTEXT"},
            "uses SASL_PLAINTEXT: kafkapy supports only PLAINTEXT",
        ),
    ],
)
def test_what_is_not_there_yet_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        check_built(BrokerConfig.from_properties(properties))


@pytest.mark.parametrize(
    "properties",
    [{}, {"listeners": "IN://:1", "listener.security.protocol.map": "IN:PLAINTEXT"}, {"zookeeper.connect": ""}],
)
def test_what_is_there_is_let_through(properties: dict[str, str]) -> None:
    config = BrokerConfig.from_properties(properties)
    check_built(config)
    assert config.embedded_store


def test_a_cluster_is_let_through() -> None:
    config = BrokerConfig.from_properties({"zookeeper.connect": "localhost:2181"})
    check_built(config)
    assert not config.embedded_store
