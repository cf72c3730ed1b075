import pytest

from kafkapy.metadata.znodes import (
    BrokerEndpoint,
    BrokerIdZNode,
    ClusterIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    FeatureZNode,
    LogDirEventNotificationZNode,
    ProducerIdBlockZNode,
    decode_json,
)

# As a running Apache Kafka 2.7.2 has written them.
BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","SASL_PLAINTEXT":"SASL_PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:19404","SASL_PLAINTEXT://127.0.0.1:19414"],"rack":"r1","jmx_port":-1,'
    b'"port":19404,"host":"127.0.0.1","version":5,"timestamp":"1795249561019"}'
)
CONTROLLER = b'{"version":1,"brokerid":1,"timestamp":"1795248604851"}'
BLOCK = b'{"version":1,"broker":2,"block_start":"2000","block_end":"2999"}'


def test_a_broker() -> None:
    broker = BrokerIdZNode.decode(4, BROKER)
    assert broker == BrokerIdZNode(
        4,
        (
            BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 19404),
            BrokerEndpoint("SASL_PLAINTEXT", "SASL_PLAINTEXT", "127.0.0.1", 19414),
        ),
        "r1",
        1795249561019,
        -1,
    )
    assert decode_json(broker.encode()) == decode_json(BROKER)
    assert BrokerIdZNode.decode(4, broker.encode()) == broker
    assert BrokerIdZNode.path(4) == "/brokers/ids/4"


def test_a_broker_without_plaintext_or_rack() -> None:
    broker = BrokerIdZNode(1, (BrokerEndpoint("SECURE", "SSL", "::1", 9093),), None, 5)
    value = decode_json(broker.encode())
    assert (value["host"], value["port"]) == (None, -1)
    assert value["endpoints"] == ["SECURE://[::1]:9093"]
    assert "rack" not in value
    assert BrokerIdZNode.decode(1, broker.encode()) == broker


def test_an_old_broker_has_host_and_port_alone() -> None:
    old = BrokerIdZNode.decode(3, b'{"host":"h","port":9092,"version":1}')
    assert old.endpoints == (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),)


@pytest.mark.parametrize("data", [None, b"", b"[]", b'"text"', b"{}", b"{", b'{"endpoints":["nonsense"]}'])
def test_a_broken_broker_is_a_value_error(data: bytes | None) -> None:
    with pytest.raises(ValueError, match=r".+"):
        BrokerIdZNode.decode(1, data)


def test_the_controller() -> None:
    controller = ControllerZNode.decode(CONTROLLER)
    assert controller == ControllerZNode(1, 1795248604851)
    assert controller.encode() == CONTROLLER
    newer = b'{"version":2,"brokerid":6,"timestamp":"1795249767646","kraftControllerEpoch":-1}'
    assert ControllerZNode.decode(newer).broker_id == 6
    assert ControllerEpochZNode.decode(ControllerEpochZNode.encode(7)) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        ControllerEpochZNode.decode(None)


def test_the_cluster_and_its_features() -> None:
    data = b'{"version":"1","id":"o2tiW_b9QVyBj9RJPsfm6Q"}'
    assert ClusterIdZNode.decode(data) == "o2tiW_b9QVyBj9RJPsfm6Q"
    assert ClusterIdZNode.encode("o2tiW_b9QVyBj9RJPsfm6Q") == data
    assert FeatureZNode.encode() == b'{"features":{},"version":1,"status":1}'


def test_producer_ids() -> None:
    block = ProducerIdBlockZNode.decode(BLOCK)
    assert block == ProducerIdBlockZNode(2, 2000, 2999)
    assert block.encode() == BLOCK
    assert ProducerIdBlockZNode.decode(None) is ProducerIdBlockZNode.decode(b"") is None


def test_a_failed_data_directory() -> None:
    event = LogDirEventNotificationZNode.decode(b'{"version":1,"broker":4,"event":1}')
    assert event == LogDirEventNotificationZNode(4)
    assert event.encode() == b'{"version":1,"broker":4,"event":1}'
    with pytest.raises(ValueError, match="no 'broker'"):
        LogDirEventNotificationZNode.decode(b'{"version":1}')
