"""Updates the logs' configuration when the topics' overrides or the broker's defaults change."""

from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.log_config import LogConfig
from kafkapy.storage.log_manager import LogManager


class LogConfigs:
    """Resolves a topic's ``LogConfig``; as a ``ConfigListener`` it hands changes to the open logs."""

    def __init__(
        self, config: BrokerConfig, logs: LogManager, overrides_of: Callable[[str], Mapping[str, str]]
    ) -> None:
        self._config = config
        self._logs = logs
        self._overrides_of = overrides_of
        self._resolved: WeakValueDictionary[frozenset[tuple[str, str]], LogConfig] = WeakValueDictionary()
        """By the overrides: topics with equal overrides share one object, so ten thousand logs take no more memory.

        An entry disappears with the last log that uses it: overrides that no topic has any more take no memory.
        """
        config.add_listener(self._broker_defaults_changed)

    def of(self, topic: str) -> LogConfig:
        """Return the current configuration of a topic's logs; raises InvalidConfigError with the topic's name."""
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
        for log in (*self._logs.all_logs(), *self._logs.future_logs()):
            if log.topic_partition.topic == topic:
                log.update_config(resolved)

    def broker_config_changed(self, broker_id: int | None, overrides: Mapping[str, str]) -> None:
        """See ``ConfigListener``; does nothing, since ``BrokerConfig`` itself calls its listeners."""

    def _broker_defaults_changed(self, names: frozenset[str]) -> None:
        if any(name.startswith(("log.", "message.", "compression.", "min.insync", "unclean.")) for name in names):
            self._resolved.clear()
            self._logs.config = LogConfig.resolve(self._config)
            for log in (*self._logs.all_logs(), *self._logs.future_logs()):
                log.update_config(self.of(log.topic_partition.topic))
