"""The loggers of this process and their levels under Kafka's names; each test has its own loggers."""

import logging
from collections.abc import Iterator

import pytest

from kafkapy.config.alteration import Change
from kafkapy.config.errors import InvalidAlterationError
from kafkapy.server.handlers.shared.broker_loggers import DYNAMIC_BROKER_LOGGER, LEVELS, alter_loggers, describe_loggers

SET, DELETE, APPEND, SUBTRACT = range(4)
UPPER, LOWER = "kafkapy.of_this_test", "kafkapy.of_this_test.place.below"


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    before = logging.root.level
    logging.getLogger(LOWER)
    logging.getLogger(UPPER).setLevel(logging.WARNING)
    yield
    logging.root.setLevel(before)
    for name in (UPPER, LOWER):
        logging.getLogger(name).setLevel(logging.NOTSET)


def _levels() -> dict[str, str | None]:
    return {each.name: each.value for each in describe_loggers()}


def test_each_logger_is_listed_with_its_effective_level() -> None:
    levels = _levels()
    assert (levels[UPPER], levels[LOWER]) == ("WARN", "WARN")
    assert "kafkapy.of_this_test.place" not in levels
    (entry,) = [each for each in describe_loggers() if each.name == UPPER]
    assert entry[2:] == (False, DYNAMIC_BROKER_LOGGER, False, (), 0)


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_is_set_and_listed_by_its_name(level: str) -> None:
    alter_loggers([Change(UPPER, SET, level)], validate_only=False)
    assert logging.getLogger(UPPER).level == LEVELS[level]
    assert _levels()[LOWER] == level


@pytest.mark.parametrize(("number", "name"), [(1, "TRACE"), (15, "INFO"), (99, "FATAL")])
def test_levels_between_have_the_name_above(number: int, name: str) -> None:
    logging.getLogger(UPPER).setLevel(number)
    assert _levels()[UPPER] == name


def test_the_root_is_listed_and_a_deleted_level_is_that_of_the_logger_above() -> None:
    alter_loggers([Change("root", SET, "ERROR"), Change(UPPER, DELETE, None)], validate_only=False)
    assert logging.root.level == logging.ERROR
    levels = _levels()
    assert (levels["root"], levels[UPPER], levels[LOWER]) == ("ERROR", "ERROR", "ERROR")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Change("no.such.logger", SET, "INFO"), "There is no logger no.such.logger"),
        (Change("kafkapy.of_this_test.place", SET, "INFO"), "There is no logger"),
        (Change("no.such.logger", DELETE, None), "There is no logger"),
        (Change("", SET, "INFO"), "There is no logger"),
        (Change(LOWER, SET, "info"), "info is not a level; the levels are TRACE, DEBUG"),
        (Change(LOWER, SET, None), "None is not a level"),
        (Change("root", DELETE, None), "root can't be deleted"),
        (Change(LOWER, APPEND, "INFO"), "use SET or DELETE"),
        (Change(LOWER, SUBTRACT, "INFO"), "use SET or DELETE"),
        (Change(LOWER, 9, "INFO"), "use SET or DELETE"),
        (Change(UPPER, DELETE, None), "more than once"),
    ],
)
def test_a_refused_change_prevents_all_others(change: Change, reason: str) -> None:
    with pytest.raises(InvalidAlterationError, match=reason):
        alter_loggers([Change(UPPER, SET, "DEBUG"), change], validate_only=False)
    assert _levels()[UPPER] == "WARN"


def test_levels_are_not_changed_with_validate_only() -> None:
    alter_loggers([Change(UPPER, SET, "DEBUG")], validate_only=True)
    assert _levels()[UPPER] == "WARN"
