"""Broker loggers (KIP-412): the loggers of this process, and their levels under log4j's names.

A client lists them with DescribeConfigs, and changes them with IncrementalAlterConfigs, as ``kafka-configs
--entity-type broker-loggers`` does. Changes are kept until the process ends. A logger is listed once its module is
loaded. A broker in a test's process has the same loggers as the test.
"""

import logging
from collections.abc import Iterable
from typing import Final

from kafkapy.config.alteration import Change, Operation, check_changes
from kafkapy.config.describe import UNKNOWN_TYPE, Description
from kafkapy.config.errors import InvalidAlterationError

ROOT: Final = "root"
DYNAMIC_BROKER_LOGGER: Final = 6
"""The source of every level."""
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""log4j's names and Python's numbers, the lowest level first."""


def describe_loggers() -> list[Description]:
    """Every logger and its level: its own, or else that of the nearest logger above it that has one."""
    known = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    return [_described(each) for each in (logging.root, *known)]


def _described(logger: logging.Logger) -> Description:
    level = _level_name(logger.getEffectiveLevel())
    return Description(logger.name, level, False, DYNAMIC_BROKER_LOGGER, False, (), UNKNOWN_TYPE)


def alter_loggers(changes: Iterable[Change], *, validate_only: bool) -> None:
    """Set levels, or delete them so that the level of the logger above applies; all or nothing.

    Raises InvalidAlterationError for an unknown logger or level, the deletion of the root's level, another operation.
    """
    wanted = list(changes)
    check_changes(wanted)
    for change in wanted:
        _check(change)
    if validate_only:
        return
    for name, operation, value in wanted:
        level = LEVELS[str(value)] if operation == Operation.SET else logging.NOTSET
        logging.getLogger(None if name == ROOT else name).setLevel(level)


def _check(change: Change) -> None:
    name, operation, value = change
    if operation not in (Operation.SET, Operation.DELETE):
        raise InvalidAlterationError(f"The level of {name} supports neither APPEND nor SUBTRACT: use SET or DELETE")
    if name != ROOT and not isinstance(logging.root.manager.loggerDict.get(name), logging.Logger):
        raise InvalidAlterationError(f"There is no logger {name}")
    if operation == Operation.SET and value not in LEVELS:
        raise InvalidAlterationError(f"{value} is not a level; the levels are {', '.join(LEVELS)}")
    if operation == Operation.DELETE and name == ROOT:
        raise InvalidAlterationError(f"The level of the logger {ROOT} can't be deleted")


def _level_name(number: int) -> str:
    return next((name for name, level in LEVELS.items() if number <= level), "FATAL")
