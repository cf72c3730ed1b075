"""The configuration APIs answer each request with the code that Apache Kafka 2.7.2 answers; run it there too."""

import time

import pytest

from compat_tests.selection.scenarios import IN_KRAFT
from harness.process import Broker
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.topics import create_topic
from kafkapy.protocol.messages import alter_configs, incremental_alter_configs
from kafkapy.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

TOPIC, BROKER, LOGGERS = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
THROTTLED = "leader.replication.throttled.replicas"
UNKNOWN_TOPIC_OR_PARTITION = 3
TOLD_BY_NAME = pytest.mark.differs(*IN_KRAFT, reason="an impossible value or change: INVALID_CONFIG (40)")


NOTHING_IS_NO_ITEM = pytest.mark.differs(*IN_KRAFT, reason="what is appended to an empty list is its only item")


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    with ClusterClient(broker.bootstrap) as client:
        create_topic(client, topic_name, partitions=1, configs={})
        # A KRaft controller answers a moment before its brokers know of it.
        client.retrying(lambda: client.topic(topic_name), also=frozenset({UNKNOWN_TOPIC_OR_PARTITION}))
    return topic_name


def _name(client: ClusterClient, name: str, topic: str) -> str:
    return {"<topic>": topic, "<own>": str(client.node_ids()[0])}.get(name, name)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "<topic>", 0),
        (TOPIC, "nobody-made-it", 3),
        (TOPIC, "bad name", 17),
        (TOPIC, "", 17),
        (BROKER, "<own>", 0),
        (BROKER, "", 0),
        (BROKER, "77", 42),
        (BROKER, "abc", 42),
        (LOGGERS, "<own>", 0),
        (LOGGERS, "", 42),
        (LOGGERS, "77", 42),
        (3, "x", 42),
    ],
)
def test_describe(broker: Broker, topic: str, kind: int, name: str, code: int) -> None:
    with ClusterClient(broker.bootstrap) as client:
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, _name(client, name, topic), None)])
        (result,) = client.call(request, DescribeConfigsResponse).results
    assert result.error_code == code


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code"),
    [
        (TOPIC, "<topic>", {"retention.ms": "5"}, 0),
        (TOPIC, "<topic>", {"nope": "5"}, 40),
        pytest.param(TOPIC, "<topic>", {"retention.ms": "-7"}, 42, marks=TOLD_BY_NAME),
        (TOPIC, "<topic>", {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, 40),
        (TOPIC, "nobody-made-it", {"retention.ms": "5"}, 3),
        (BROKER, "<own>", {"num.partitions": "5"}, 42),
        (BROKER, "<own>", {"log.retention.ms": "x"}, 42),
        (BROKER, "<own>", {"num.io.threads": "1000"}, 42),
        (BROKER, "<own>", {"ssl.keystore.type": "JKS"}, 42),
        (BROKER, "<own>", {"nobody.knows": "1"}, 0),
        (BROKER, "<own>", {}, 0),
        (BROKER, "", {"listeners": "PLAINTEXT://127.0.0.1:9"}, 42),
        pytest.param(
            *(BROKER, "", {}, 0),
            marks=pytest.mark.differs(
                "kafka-4.4.0",
                reason="the cluster's min.insync.replicas can't be removed (KIP-966): INVALID_CONFIG (40)",
            ),
        ),
        (BROKER, "77", {}, 42),
        (LOGGERS, "<own>", {"kafka": "INFO"}, 42),
        (3, "x", {}, 42),
    ],
)
def test_alter(broker: Broker, topic: str, kind: int, name: str, configs: dict[str, str], code: int) -> None:
    pairs = [alter_configs.AlterableConfig(*pair) for pair in configs.items()]
    with ClusterClient(broker.bootstrap) as client:
        resource = alter_configs.AlterConfigsResource(kind, _name(client, name, topic), pairs)
        request = alter_configs.AlterConfigsRequest([resource])
        (response,) = client.call(request, alter_configs.AlterConfigsResponse).responses
    assert response.error_code == code


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code"),
    [
        (TOPIC, "<topic>", [("retention.ms", SET, "5"), ("segment.ms", DELETE, None)], 0),
        (TOPIC, "<topic>", [("cleanup.policy", APPEND, "compact")], 0),
        (TOPIC, "<topic>", [("cleanup.policy", SUBTRACT, "compact")], 0),
        (TOPIC, "<topic>", [("nope", SET, "5")], 40),
        (TOPIC, "<topic>", [("nope", DELETE, None)], 0),
        (TOPIC, "<topic>", [("retention.ms", SET, None)], 42),
        pytest.param(TOPIC, "<topic>", [("retention.ms", APPEND, "5")], 42, marks=TOLD_BY_NAME),
        pytest.param(TOPIC, "<topic>", [("cleanup.policy", APPEND, "forget")], 42, marks=TOLD_BY_NAME),
        (TOPIC, "<topic>", [("flush.ms", SET, "5"), ("flush.ms", DELETE, None)], 42),
        (TOPIC, "nobody-made-it", [], 3),
        (BROKER, "<own>", [("num.partitions", SET, "5")], 42),
        (BROKER, "<own>", [("num.partitions", DELETE, None)], 0),
        (BROKER, "<own>", [("log.retention.ms", SET, "0")], 42),
        (BROKER, "<own>", [("log.roll.jitter.ms", SET, "-1")], 42),
        (BROKER, "<own>", [("compression.type", SET, "none")], 42),
        (BROKER, "<own>", [("max.connections.per.ip", SET, "0")], 42),
        (BROKER, "<own>", [("max.connections.per.ip.overrides", SET, "host")], 42),
        (BROKER, "<own>", [("max.connections.per.ip.overrides", SET, "host:many")], 42),
        (BROKER, "", [("compression.type", SET, "none")], 42),
        pytest.param(
            *(TOPIC, "<topic>", [("leader.replication.throttled.replicas", SET, "*,1:2")], 0),
            marks=pytest.mark.differs(*IN_KRAFT, reason="throttled replicas are all, or a list: INVALID_CONFIG (40)"),
        ),
        pytest.param(TOPIC, "<topic>", [("leader.replication.throttled.replicas", SET, "1:")], 42, marks=TOLD_BY_NAME),
        (TOPIC, "<topic>", [("segment.ms", SET, "\x001000\x1f")], 0),
        pytest.param(TOPIC, "<topic>", [("segment.ms", SET, "1000\u00a0")], 42, marks=TOLD_BY_NAME),
        (TOPIC, "<topic>", [("min.cleanable.dirty.ratio", SET, "NaN")], 0),
        pytest.param(
            *(BROKER, "<own>", [("listener.name.external.ssl.keystore.password", SET, "secret")], 42),
            marks=pytest.mark.differs(*IN_KRAFT, reason="passwords are taken without password.encoder.secret"),
        ),
        (BROKER, "", [("background.threads", SET, "11")], 0),
        (BROKER, "", [("background.threads", DELETE, None)], 0),
        (BROKER, "77", [], 42),
        (LOGGERS, "77", [], 42),
        pytest.param(
            *(LOGGERS, "", [], 0),
            marks=pytest.mark.differs(*IN_KRAFT, reason="loggers are those of a broker: INVALID_REQUEST (42) for none"),
        ),
        pytest.param(LOGGERS, "<own>", [("nobody.logs.here", SET, "INFO")], 42, marks=TOLD_BY_NAME),
        pytest.param(LOGGERS, "<own>", [("nobody.logs.here", DELETE, None)], 42, marks=TOLD_BY_NAME),
        pytest.param(LOGGERS, "<own>", [("root", SET, "LOUD")], 42, marks=TOLD_BY_NAME),
        pytest.param(LOGGERS, "<own>", [("root", SET, "info")], 42, marks=TOLD_BY_NAME),
        (LOGGERS, "<own>", [("root", SET, None)], 42),
        (LOGGERS, "<own>", [("root", DELETE, None)], 42),
        (LOGGERS, "<own>", [("root", APPEND, "INFO")], 42),
        (LOGGERS, "<own>", [("root", SUBTRACT, "INFO")], 42),
        (3, "x", [], 42),
    ],
)
def test_incremental_alter(
    broker: Broker, topic: str, kind: int, name: str, changes: list[tuple[str, int, str | None]], code: int
) -> None:
    configs = [incremental_alter_configs.AlterableConfig(*change) for change in changes]
    with ClusterClient(broker.bootstrap) as client:
        resource = incremental_alter_configs.AlterConfigsResource(kind, _name(client, name, topic), configs)
        request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
        (response,) = client.call(request, incremental_alter_configs.IncrementalAlterConfigsResponse).responses
    assert response.error_code == code


@pytest.mark.parametrize(
    ("key", "changes", "value"),
    [
        pytest.param(THROTTLED, [(APPEND, "0:1")], ",0:1", marks=NOTHING_IS_NO_ITEM),
        pytest.param(THROTTLED, [(APPEND, "")], ",", marks=NOTHING_IS_NO_ITEM),
        (THROTTLED, [(SET, "0:1"), (APPEND, ",1:2,,")], "0:1,,1:2"),
        (THROTTLED, [(SET, "0:1,"), (SUBTRACT, "0:1")], ""),
        ("cleanup.policy", [(APPEND, "compact,")], "delete,compact"),
    ],
)
def test_lists_after_appends_and_subtractions(
    broker: Broker, topic: str, key: str, changes: list[tuple[int, str]], value: str
) -> None:
    with ClusterClient(broker.bootstrap) as client:
        for operation, text in changes:
            configs = [incremental_alter_configs.AlterableConfig(key, operation, text)]
            request = incremental_alter_configs.IncrementalAlterConfigsRequest(
                [incremental_alter_configs.AlterConfigsResource(TOPIC, topic, configs)]
            )
            (altered,) = client.call(request, incremental_alter_configs.IncrementalAlterConfigsResponse).responses
            assert altered.error_code == 0
        deadline_s = time.monotonic() + 5
        described = None
        while described != value and time.monotonic() < deadline_s:
            asked = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic, [key])])
            described = client.call(asked, DescribeConfigsResponse).results[0].configs[0].value
            time.sleep(0.05)
    assert described == value


def _levels(client: ClusterClient) -> dict[str, tuple[str | None, int, bool, bool]]:
    own = str(client.node_ids()[0])
    request = DescribeConfigsRequest([DescribeConfigsResource(LOGGERS, own, None)])
    (result,) = client.call(request, DescribeConfigsResponse).results
    return {each.name: (each.value, each.config_source, each.is_sensitive, each.read_only) for each in result.configs}


def _set_level(client: ClusterClient, logger: str, operation: int, level: str | None, *, check: bool = False) -> int:
    change = incremental_alter_configs.AlterableConfig(logger, operation, level)
    own = str(client.node_ids()[0])
    resource = incremental_alter_configs.AlterConfigsResource(LOGGERS, own, [change])
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource], check)
    (response,) = client.call(request, incremental_alter_configs.IncrementalAlterConfigsResponse).responses
    return response.error_code


@pytest.mark.differs("kafka-4.4.0", reason="without log4j 2, which the suite does not give it, it tells of no loggers")
def test_a_loggers_level_is_set_and_deleted(broker: Broker) -> None:
    with ClusterClient(broker.bootstrap) as client:
        before = _levels(client)
        logger = next(name for name in sorted(before) if name.startswith("kafka"))
        assert before[logger] == (before["root"][0], 6, False, False)
        assert _set_level(client, logger, SET, "FATAL", check=True) == 0
        assert _levels(client)[logger] == before[logger]
        assert _set_level(client, logger, SET, "FATAL") == 0
        assert _levels(client)[logger][0] == "FATAL"
        assert _set_level(client, logger, DELETE, None) == 0
        assert _levels(client)[logger] == before[logger]
