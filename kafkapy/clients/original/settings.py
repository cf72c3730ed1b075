"""The settings of the original clients, by the names and with the defaults that Kafka 0.8.2 documents."""

import importlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from kafkapy.clients.errors import ClientError
from kafkapy.clock import SystemClock
from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.settings import JVM_OPTIONS, OPEN_ZOOKEEPER, ZooKeeperSecurity
from kafkapy.security.zookeeper import KEYS, zookeeper_security

LONGEST_MS: Final = 2**31 - 1


class SettingsError(ClientError):
    """A setting that is missing, unknown, or has a value that it can't have."""


class Properties:
    """Reads settings by name from texts, and knows which names nobody has asked for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._left = dict(given)

    def text(self, name: str, default: str | None = None) -> str:
        """The text of a setting; raises SettingsError if it has no default and is not given."""
        found = self._left.pop(name, default)
        if found is None:
            raise SettingsError(f"{name} is missing: give it a value")
        return found

    def given(self, names: Iterable[str]) -> dict[str, str]:
        """The texts of those of the settings that are given."""
        return {name: self._left.pop(name) for name in names if name in self._left}

    def number(self, name: str, default: int, least: int = 0) -> int:
        """A whole number from ``least`` to 2147483647."""
        text = self.text(name, str(default))
        try:
            value = int(text)
        except ValueError:
            raise SettingsError(f"{name}={text!r}: it must be a whole number") from None
        if not least <= value <= LONGEST_MS:
            raise SettingsError(f"{name}={text!r}: it must be from {least} to {LONGEST_MS}")
        return value

    def choice(self, name: str, default: str, *allowed: str) -> str:
        """One of some words."""
        text = self.text(name, default)
        if text not in allowed:
            raise SettingsError(f"{name}={text!r}: it must be one of {', '.join(allowed)}")
        return text

    def flag(self, name: str, *, default: bool) -> bool:
        """``true`` or ``false``."""
        return self.choice(name, "true" if default else "false", "true", "false") == "true"

    def named(self, name: str) -> Any:
        """The object whose dotted name the setting has, None without the setting; of a class, a new instance.

        Raises SettingsError if there is no such object, or its module or class fails.
        """
        dotted = self.text(name, "")
        if not dotted:
            return None
        module, _, attribute = dotted.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), attribute)
            return found() if isinstance(found, type) else found
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise SettingsError(
                f"{name}={dotted!r}: it must be a dotted name of Python, module.Class: {error}"
            ) from error

    def end(self) -> None:
        """Raise SettingsError for names that are no settings."""
        if self._left:
            raise SettingsError(f"unknown settings: {', '.join(sorted(self._left))}")


@dataclass(frozen=True)
class ZooKeeperConnectSettings:
    """``zookeeper.connect`` (``host:port,…/chroot``), the two time-outs (ms), and the security of a broker's keys."""

    connect: str
    session_timeout_ms: int
    connection_timeout_ms: int
    security: ZooKeeperSecurity = OPEN_ZOOKEEPER

    @classmethod
    def read(cls, properties: Properties) -> Self:
        """From ``zookeeper.…`` and the environment's ``KAFKA_OPTS``; raises SettingsError."""
        try:
            security = zookeeper_security(
                properties.given(KEYS), os.environ.get(JVM_OPTIONS, ""), SystemClock().now_ms()
            )
        except InvalidSecurityError as error:
            raise SettingsError(str(error)) from None
        session_timeout_ms = properties.number("zookeeper.session.timeout.ms", 6_000, least=1)
        return cls(
            properties.text("zookeeper.connect", ""),
            session_timeout_ms,
            properties.number("zookeeper.connection.timeout.ms", session_timeout_ms, least=1),
            security,
        )


@dataclass(frozen=True)
class ConsumerConnectorSettings:
    """The settings of a consumer connector; a field has the name of its setting, times are in ms, sizes in bytes."""

    zookeeper: ZooKeeperConnectSettings
    group_id: str
    consumer_id: str | None
    auto_commit_enable: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    consumer_timeout_ms: int
    """The longest wait for a record; -1 waits for ever."""
    exclude_internal_topics: bool
    fetch_message_max_bytes: int
    fetch_min_bytes: int
    fetch_wait_max_ms: int
    queued_max_message_chunks: int
    rebalance_max_retries: int
    rebalance_backoff_ms: int
    refresh_leader_backoff_ms: int
    socket_timeout_ms: int
    offsets_storage: str
    dual_commit_enabled: bool
    offsets_commit_max_retries: int

    @classmethod
    def from_properties(cls, given: Mapping[str, str]) -> Self:
        """Read the names of Kafka 0.8.2, and of 0.7 where they differ; raises SettingsError."""
        properties = Properties(_renamed(given, _CONSUMER_NAMES_OF_0_7))
        properties.choice("partition.assignment.strategy", "range", "range")
        storage = properties.choice("offsets.storage", "zookeeper", "zookeeper", "kafka")
        consumer_id = properties.text("consumer.id", "")
        settings = cls(
            zookeeper=ZooKeeperConnectSettings.read(properties),
            group_id=properties.text("group.id"),
            consumer_id=consumer_id or None,
            auto_commit_enable=properties.flag("auto.commit.enable", default=True),
            auto_commit_interval_ms=properties.number("auto.commit.interval.ms", 60_000, least=1),
            auto_offset_reset=properties.choice("auto.offset.reset", "largest", "smallest", "largest"),
            consumer_timeout_ms=properties.number("consumer.timeout.ms", -1, least=-1),
            exclude_internal_topics=properties.flag("exclude.internal.topics", default=True),
            fetch_message_max_bytes=properties.number("fetch.message.max.bytes", 1 << 20, least=1),
            fetch_min_bytes=properties.number("fetch.min.bytes", 1),
            fetch_wait_max_ms=properties.number("fetch.wait.max.ms", 100),
            queued_max_message_chunks=properties.number("queued.max.message.chunks", 2, least=1),
            rebalance_max_retries=properties.number("rebalance.max.retries", 4, least=1),
            rebalance_backoff_ms=properties.number("rebalance.backoff.ms", 2_000),
            refresh_leader_backoff_ms=properties.number("refresh.leader.backoff.ms", 200),
            socket_timeout_ms=properties.number("socket.timeout.ms", 30_000, least=1),
            offsets_storage=storage,
            dual_commit_enabled=properties.flag("dual.commit.enabled", default=storage == "kafka"),
            offsets_commit_max_retries=properties.number("offsets.commit.max.retries", 5),
        )
        properties.end()
        if not settings.group_id or "/" in settings.group_id:
            raise SettingsError(f"group.id={settings.group_id!r}: it must not be empty, nor contain '/'")
        return settings


_CONSUMER_NAMES_OF_0_7: Final = {"zk.connect": "zookeeper.connect"}
_PRODUCER_NAMES_OF_0_7: Final = {
    "zk.connect": "zookeeper.connect",
    "broker.list": "metadata.broker.list",
    "queue.time": "queue.buffering.max.ms",
    "queue.size": "queue.buffering.max.messages",
    "batch.size": "batch.num.messages",
}


def _renamed(given: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Kafka 0.7's names as those of 0.8.2; raises SettingsError if a setting has both."""
    both = [old for old, new in names.items() if old in given and new in given]
    if both:
        raise SettingsError(f"{both[0]} and {names[both[0]]} are the same setting: give one of them")
    return {names.get(name, name): value for name, value in given.items()}


@dataclass(frozen=True)
class OriginalProducerSettings:
    """The settings of the original producer; a field has the name of its setting, times are in ms."""

    zookeeper: ZooKeeperConnectSettings
    metadata_broker_list: str
    is_async: bool
    request_required_acks: int
    request_timeout_ms: int
    compression_codec: str
    compressed_topics: frozenset[str]
    """The only topics to compress; empty: all."""
    message_send_max_retries: int
    retry_backoff_ms: int
    queue_buffering_max_ms: int
    queue_buffering_max_messages: int
    queue_enqueue_timeout_ms: int
    """How long ``send`` waits for space in the queue; -1 waits for ever."""
    batch_num_messages: int
    event_handler: Any
    callback_handler: Any
    partitioner: Any
    """The objects that ``event.handler``, ``callback.handler`` and ``partitioner.class`` name, None without."""

    @classmethod
    def from_properties(cls, given: Mapping[str, str]) -> Self:
        """Read the names of Kafka 0.8.2, and of 0.7 where they differ; raises SettingsError."""
        properties = Properties(_renamed(given, _PRODUCER_NAMES_OF_0_7))
        topics = properties.text("compressed.topics", "")
        settings = cls(
            zookeeper=ZooKeeperConnectSettings.read(properties),
            metadata_broker_list=properties.text("metadata.broker.list", ""),
            is_async=properties.choice("producer.type", "sync", "sync", "async") == "async",
            request_required_acks=properties.number("request.required.acks", 0, least=-1),
            request_timeout_ms=properties.number("request.timeout.ms", 10_000, least=1),
            compression_codec=properties.choice("compression.codec", "none", "none", "gzip", "snappy", "lz4"),
            compressed_topics=frozenset(filter(None, (topic.strip() for topic in topics.split(",")))),
            message_send_max_retries=properties.number("message.send.max.retries", 3),
            retry_backoff_ms=properties.number("retry.backoff.ms", 100),
            queue_buffering_max_ms=properties.number("queue.buffering.max.ms", 5_000),
            queue_buffering_max_messages=properties.number("queue.buffering.max.messages", 10_000, least=1),
            queue_enqueue_timeout_ms=properties.number("queue.enqueue.timeout.ms", -1, least=-1),
            batch_num_messages=properties.number("batch.num.messages", 200, least=1),
            event_handler=properties.named("event.handler"),
            callback_handler=properties.named("callback.handler"),
            partitioner=properties.named("partitioner.class"),
        )
        properties.end()
        if settings.metadata_broker_list and settings.zookeeper.connect:
            raise SettingsError(
                "zookeeper.connect and metadata.broker.list both say where brokers are: give one of them"
            )
        return settings
