"""The pytest plugin: ``kafka_broker``, one broker for many tests, and ``kafka_topic``, a new topic for each test.

``kafka_cluster`` and ``kafka_cluster_topic`` are the same with several brokers.

It is installed with kafkapy and imports only pytest until a test uses one of its fixtures. Under pytest-xdist each
worker process has a broker of its own. The ini options ``kafka_broker_scope`` and ``kafka_cluster_scope`` are the
scopes of the fixtures, by default the session; after each test, the brokers that it had stopped are started again.
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypedDict

import pytest

if TYPE_CHECKING:
    from kafkapy.testing.broker import Broker
    from kafkapy.testing.cluster import Cluster

SCOPES: Final = ("session", "package", "module", "class", "function")
BROKER: Final = "kafka_broker"
CLUSTER: Final = "kafka_cluster"
SECURITY: Final = "kafka_security"
ACT_AS: Final = "kafka_act_as"
LONGEST_NAME: Final = 200

_running: Final = pytest.StashKey["Broker"]()
_running_cluster: Final = pytest.StashKey["Cluster"]()
_numbers: Final = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Settings on the command line and in the ini file."""
    parser.getgroup("kafkapy", "kafkapy, a Kafka broker for tests").addoption(
        "--kafka-broker-setting",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of server.properties for the kafka_broker fixture, overrides the ini file; repeatable",
    )
    for fixture in (BROKER, CLUSTER):
        parser.addini(
            f"{fixture}_settings", f"settings of the {fixture} fixture, key=value, one per line", "linelist", []
        )
        parser.addini(f"{fixture}_scope", f"the scope of the {fixture} fixture: {', '.join(SCOPES)}", default=SCOPES[0])
    parser.addini(
        SECURITY, "TLS and SASL of kafka_broker and kafka_cluster, such as sasl_ssl (docs/security.md)", default=""
    )
    parser.addini(
        ACT_AS,
        "the release of Apache Kafka whose APIs kafka_broker and kafka_cluster serve: 2.7, 3.9 or 4.4",
        default="",
    )
    parser.addini("kafka_cluster_brokers", "how many brokers the kafka_cluster fixture has", default="3")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; raises ``UsageError`` for invalid options."""
    for fixture in (BROKER, CLUSTER):
        scope = config.getini(f"{fixture}_scope")
        if scope not in SCOPES:
            raise pytest.UsageError(f"{fixture}_scope is {scope!r}: write one of {', '.join(SCOPES)}")
    broker_settings(config)
    cluster_settings(config)
    if not config.getini("kafka_cluster_brokers").isdecimal():
        raise pytest.UsageError(f"kafka_cluster_brokers is {config.getini('kafka_cluster_brokers')!r}: write a number")
    config.addinivalue_line(
        "markers",
        "kafka_topic(partitions=1, configs={}): partitions and settings of the topic of the fixtures kafka_topic and"
        " kafka_cluster_topic",
    )


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Remove a test's fault rules, pauses and separations, and start the brokers that the test has stopped.

    The names of a test's fixtures do not say whether it has used them: ``request.getfixturevalue`` asks for others.
    """
    broker = item.config.stash.get(_running, None)
    if broker is not None:
        _clear_faults(broker)
        _start(broker)
    cluster = item.config.stash.get(_running_cluster, None)
    if cluster is not None:
        restore_cluster(cluster)


def _clear_faults(broker: "Broker") -> None:
    broker.faults.clear()
    if broker.faults.is_paused:
        broker.faults.resume()


def _start(broker: "Broker") -> None:
    if not broker.is_running:  # most tests stop no broker, and a call to the broker's thread takes longer
        broker.start()


def restore_cluster(cluster: "Cluster") -> None:
    """Let all brokers run and reach each other; a broker that waits for a paused one is started after that one."""
    cluster.heal()
    for broker in cluster.brokers:
        _clear_faults(broker)
    for broker in cluster.brokers:
        _start(broker)


def fixture_scope(fixture_name: str, config: pytest.Config) -> Any:
    """The scope of ``kafka_broker`` and of ``kafka_cluster``; pytest names the parameters."""
    return config.getini(f"{fixture_name}_scope")


def broker_settings(config: pytest.Config) -> dict[str, str]:
    """The settings of the ini file, overridden by those of the command line."""
    return _settings([*config.getini("kafka_broker_settings"), *config.getoption("--kafka-broker-setting")])


def cluster_settings(config: pytest.Config) -> dict[str, str]:
    """The settings of ``kafka_cluster`` in the ini file."""
    return _settings(config.getini("kafka_cluster_settings"))


def _settings(lines: list[str]) -> dict[str, str]:
    settings = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{line!r} is no setting of a Kafka broker: write key=value")
        settings[name.strip()] = value.strip()
    return settings


class _Choices(TypedDict):
    security: str | None
    act_as: str | None


def _choices(config: pytest.Config) -> _Choices:
    return {"security": config.getini(SECURITY) or None, "act_as": config.getini(ACT_AS) or None}


@pytest.fixture(scope=fixture_scope)
def kafka_broker(pytestconfig: pytest.Config) -> "Iterator[Broker]":
    """A running ``kafkapy.testing.Broker``; its ``bootstrap`` is for the clients under test."""
    from kafkapy.testing.broker import Broker
    from kafkapy.testing.errors import BrokerStartError

    try:
        broker = Broker(broker_settings(pytestconfig), **_choices(pytestconfig)).start()
    except BrokerStartError as error:
        pytest.fail(f"kafka_broker can't start: {error}", pytrace=False)
    pytestconfig.stash[_running] = broker
    try:
        yield broker
    finally:
        del pytestconfig.stash[_running]
        broker.close()


@pytest.fixture(scope=fixture_scope)
def kafka_cluster(pytestconfig: pytest.Config) -> "Iterator[Cluster]":
    """A running ``kafkapy.testing.Cluster``; its ``bootstrap`` is for the clients under test."""
    from kafkapy.testing.cluster import Cluster
    from kafkapy.testing.errors import BrokerStartError

    try:
        brokers = int(pytestconfig.getini("kafka_cluster_brokers"))
        cluster = Cluster(brokers, cluster_settings(pytestconfig), **_choices(pytestconfig)).start()
    except BrokerStartError as error:
        pytest.fail(f"kafka_cluster can't start: {error}", pytrace=False)
    pytestconfig.stash[_running_cluster] = cluster
    try:
        yield cluster
    finally:
        del pytestconfig.stash[_running_cluster]
        cluster.close()


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_broker: "Broker") -> Iterator[str]:
    """The name of a new topic, deleted after the test; see the marker ``@pytest.mark.kafka_topic(partitions=3)``."""
    name = _topic_name(request)
    kafka_broker.create_topic(name, **_topic_shape(request))
    yield name
    kafka_broker.faults.resume()
    kafka_broker.start()
    if name in kafka_broker.topics():
        kafka_broker.delete_topic(name)


@pytest.fixture
def kafka_cluster_topic(request: pytest.FixtureRequest, kafka_cluster: "Cluster") -> Iterator[str]:
    """The name of a new topic of ``kafka_cluster``, deleted after the test; the marker is that of ``kafka_topic``."""
    name = _topic_name(request)
    kafka_cluster.create_topic(name, **_topic_shape(request))
    yield name
    restore_cluster(kafka_cluster)
    if name in kafka_cluster.controller.topics():
        kafka_cluster.delete_topic(name)


def _topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test's topic has, with the test's name in it."""
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:LONGEST_NAME]
    return f"{readable}-{next(_numbers)}"


def _topic_shape(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker("kafka_topic")
    return {} if marker is None else dict(marker.kwargs)
