"""The settings of a broker in a test: Kafka's keys, with other defaults for tests."""

from collections.abc import Mapping
from typing import Final

from kafkapy.config.broker_config import BrokerConfig, check_built
from kafkapy.config.broker_keys import BROKER_KEYS, broker_key
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.listeners import PLAINTEXT
from kafkapy.config.own_keys import API_RELEASE
from kafkapy.testing.errors import BrokerStartError
from kafkapy.text import nearest

TEST_DEFAULTS: Final[Mapping[str, str]] = {
    "broker.id": "0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
"""The first rebalance starts at once, and the first group or transaction creates one partition instead of fifty."""

INTERNAL_REPLICAS: Final = 3
"""The replicas of the internal topics, and of other topics without a number of their own, if there are so many."""

_CLUSTER_KEY: Final = "zookeeper.connect"
_OWN: Final = {"log.dirs": "data=", "log.dir": "data=", "port": "port=", "host.name": "port=", "listeners": "port="}


def replication_defaults(brokers: int) -> dict[str, str]:
    """Settings for replicas on up to three brokers, of the internal topics too."""
    replicas = min(INTERNAL_REPLICAS, brokers)
    return {
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(max(replicas - 1, 1)),
    }


def cluster_defaults(brokers: int) -> dict[str, str]:
    """The defaults of a test's cluster: ``TEST_DEFAULTS``, replicas on up to three brokers, short pauses."""
    return {
        **TEST_DEFAULTS,
        **replication_defaults(brokers),
        "replica.fetch.backoff.ms": "20",
        "replica.fetch.wait.max.ms": "100",
        "controlled.shutdown.retry.backoff.ms": "50",
    }


def config_for_test(
    settings: Mapping[str, object],
    *,
    data: str,
    port: int,
    defaults: Mapping[str, str] = TEST_DEFAULTS,
    protocol: str = PLAINTEXT,
) -> BrokerConfig:
    """The configuration of a broker on the loopback ``port`` that keeps its logs in ``data``.

    Values may be of any type that Kafka's documentation names for the key: ``True`` is written ``true``, a list with
    commas. Raises ``BrokerStartError`` for an unknown key, a key that is a parameter of ``Broker``, or an invalid
    value.
    """
    properties = {**defaults, "listeners": f"{protocol}://127.0.0.1:{port}", "log.dirs": data}
    for name, value in texts(settings).items():
        if name in _OWN:
            raise BrokerStartError(f"{name} is no setting of a broker in a test: use {_OWN[name]}")
        if name == _CLUSTER_KEY and value:
            raise BrokerStartError(f"{name} is set: a broker in a test keeps its own metadata and joins no cluster")
        if broker_key(name) is None:
            raise BrokerStartError(f"there is no configuration key {name!r}{nearest(name, BROKER_KEYS)}")
        properties[name] = value
    try:
        config = BrokerConfig.from_properties(properties)
        check_built(config)
    except InvalidConfigError as error:
        raise BrokerStartError(str(error)) from error
    return config


def with_release(settings: Mapping[str, object] | None, act_as: str | None) -> dict[str, object]:
    """Return settings of brokers that serve the APIs of one release of Apache Kafka, unless it is None."""
    return dict(settings or {}) | ({} if act_as is None else {API_RELEASE: act_as})


def texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings as Kafka writes them: ``true``, lists with commas."""
    return {name: _text(value) for name, value in settings.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
