"""Keeps the logs' configuration true to the topics' overrides and the broker's defaults."""

from collections.abc import Callable, Mapping

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.log_config import LogConfig
from kafkapy.storage.log_directory import LogManager


class LogConfigs:
    """Resolves a topic's ``LogConfig``; as a ``ConfigListener`` it hands changes to the open logs."""

    def __init__(
        self, config: BrokerConfig, logs: LogManager, overrides_of: Callable[[str], Mapping[str, str]]
    ) -> None:
        self._config = config
        self._logs = logs
        self._overrides_of = overrides_of
        self._resolved: dict[frozenset[tuple[str, str]], LogConfig] = {}
        """By the overrides: topics that override the same share one, so ten thousand logs cost no more than ten."""
        config.add_listener(self._broker_defaults_changed)

    def of(self, topic: str) -> LogConfig:
        """Return what holds for a topic's logs now; raises InvalidConfigError, naming the topic, where nothing can."""
        return self._resolve(topic, self._overrides_of(topic))

    def _resolve(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        key = frozenset(overrides.items())
        resolved = self._resolved.get(key)
        if resolved is None:
            try:
                resolved = self._resolved[key] = LogConfig.resolve(self._config, overrides)
            except InvalidConfigError as error:
                raise type(error)(f"the configuration of topic {topic}: {error}") from error
        return resolved

    def topic_config_changed(self, topic: str, overrides: Mapping[str, str]) -> None:
        """See ``ConfigListener``."""
        resolved = self._resolve(topic, overrides)
        for log in self._logs.all_logs():
            if log.topic_partition.topic == topic:
                log.update_config(resolved)

    def broker_config_changed(self, broker_id: int | None, overrides: Mapping[str, str]) -> None:
        """See ``ConfigListener``; the broker's configuration itself tells which values changed."""

    def _broker_defaults_changed(self, names: frozenset[str]) -> None:
        if any(name.startswith(("log.", "message.", "compression.", "min.insync", "unclean.")) for name in names):
            self._resolved.clear()
            self._logs.config = LogConfig.resolve(self._config)
            for log in self._logs.all_logs():
                log.update_config(self.of(log.topic_partition.topic))
