"""Builds a broker's configuration from the options of ``kafkapy start``."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from kafkapy.config.broker_config import AUTHORIZER_KEYS, BrokerConfig, check_built
from kafkapy.config.broker_keys import BROKER_KEYS, broker_key
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.properties import parse
from kafkapy.text import nearest

START_DEFAULTS: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "0"}
"""The settings of ``kafkapy start`` without a file; Apache Kafka's sample file has the same."""


class UsageError(Exception):
    """The command line is not valid; the sentence says why and what to do."""


def read_file(path: str) -> dict[str, str]:
    """The properties in a file (UTF-8); raises UsageError if it can't be read."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"can't read the configuration {path}: {reason}") from error
    except InvalidConfigError as error:
        raise UsageError(f"{path}: {error}") from error


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """``key=value`` arguments; raises UsageError for another form, and for a key that does not exist."""
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"{setting!r} is no setting: write key=value")
        if broker_key(name) is None and name not in AUTHORIZER_KEYS:
            raise UsageError(f"there is no configuration key {name!r}{nearest_key(name)}")
        values[name] = value
    return values


def nearest_key(name: str) -> str:
    """``; did you mean …?`` with the most similar configuration key, or nothing if none is."""
    return nearest(name, BROKER_KEYS)


def build_config(*, file: str | None, data: str | None, port: int | None, settings: Iterable[str]) -> BrokerConfig:
    """Merge the file, the options and the settings, the later ones win; raises UsageError or InvalidConfigError."""
    properties = dict(START_DEFAULTS) if file is None else read_file(file)
    if data is not None:
        properties["log.dirs"] = str(Path(data).absolute())
    if port is not None:
        properties["listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
    properties.update(parse_settings(settings))
    config = BrokerConfig.from_properties(properties)
    check_built(config)
    return config
