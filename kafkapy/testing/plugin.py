"""The pytest plugin: ``kafka_broker``, one broker for many tests, and ``kafka_topic``, a new topic for each test.

It is installed with kafkapy and imports only pytest until a test uses one of its fixtures. Under pytest-xdist each
worker process has a broker of its own. The ini option ``kafka_broker_scope`` is the scope of ``kafka_broker``, by
default the session; after each test that used the broker, it is started again if the test had stopped it.
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from kafkapy.testing.broker import Broker

SCOPES: Final = ("session", "package", "module", "class", "function")
BROKER: Final = "kafka_broker"
LONGEST_NAME: Final = 200

_running: Final = pytest.StashKey["Broker"]()
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
    parser.addini(
        "kafka_broker_settings", "settings of the kafka_broker fixture, key=value, one per line", "linelist", []
    )
    parser.addini(
        "kafka_broker_scope", f"the scope of the kafka_broker fixture: {', '.join(SCOPES)}", default=SCOPES[0]
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; raises ``UsageError`` for invalid options."""
    scope = config.getini("kafka_broker_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"kafka_broker_scope is {scope!r}: write one of {', '.join(SCOPES)}")
    broker_settings(config)
    config.addinivalue_line(
        "markers", "kafka_topic(partitions=1, configs={}): partitions and settings of the kafka_topic fixture's topic"
    )


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Remove a test's fault rules and pauses, and start the broker if the test has stopped it."""
    broker = item.config.stash.get(_running, None)
    if broker is not None and BROKER in getattr(item, "fixturenames", ()):
        broker.faults.clear()
        broker.faults.resume()
        broker.start()


def broker_scope(fixture_name: str, config: pytest.Config) -> Any:  # noqa: ARG001  # pytest names them
    """The scope of ``kafka_broker``."""
    return config.getini("kafka_broker_scope")


def broker_settings(config: pytest.Config) -> dict[str, str]:
    """The settings of the ini file, overridden by those of the command line."""
    settings = {}
    for line in [*config.getini("kafka_broker_settings"), *config.getoption("--kafka-broker-setting")]:
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{line!r} is no setting of a Kafka broker: write key=value")
        settings[name.strip()] = value.strip()
    return settings


@pytest.fixture(scope=broker_scope)
def kafka_broker(pytestconfig: pytest.Config) -> "Iterator[Broker]":
    """A running ``kafkapy.testing.Broker``; its ``bootstrap`` is for the clients under test."""
    from kafkapy.testing.broker import Broker
    from kafkapy.testing.errors import BrokerStartError

    broker = Broker(broker_settings(pytestconfig))
    try:
        broker.start()
    except BrokerStartError as error:
        pytest.fail(f"kafka_broker can't start: {error}", pytrace=False)
    pytestconfig.stash[_running] = broker
    try:
        yield broker
    finally:
        del pytestconfig.stash[_running]
        broker.close()


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_broker: "Broker") -> Iterator[str]:
    """The name of a new topic, deleted after the test; see the marker ``@pytest.mark.kafka_topic(partitions=3)``."""
    marker = request.node.get_closest_marker("kafka_topic")
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:LONGEST_NAME]
    name = f"{readable}-{next(_numbers)}"
    kafka_broker.create_topic(name, **(marker.kwargs if marker is not None else {}))
    yield name
    kafka_broker.faults.resume()
    kafka_broker.start()
    if name in kafka_broker.topics():
        kafka_broker.delete_topic(name)
