"""Each kind of restriction allows the values that Kafka allows, and explains what is wrong with others."""

import pytest

from kafkapy.config.keys import (
    RELEASES,
    AtLeast,
    Between,
    OneOf,
    OneOfInAnyCase,
    Release,
    ThrottledReplicas,
    format_of,
    is_at_least,
    release_of,
)


def test_at_least() -> None:
    assert AtLeast(1).problem(1) is None
    assert AtLeast(1).problem(0) == "Value must be at least 1"
    assert AtLeast(1).problem("1") == "Value must be at least 1"
    assert AtLeast(1).problem(float("nan")) is None  # Kafka refuses only values that are below


def test_between() -> None:
    assert Between(0, 1).problem(0.0) is None
    assert Between(0, 1).problem(1.0) is None
    assert Between(0, 1).problem(1.01) == "Value must be no more than 1"
    assert Between(0, 1).problem(-0.1) == "Value must be at least 0"
    assert Between(0, 1).problem(float("nan")) is None


def test_one_of_takes_a_word_or_a_list_of_them() -> None:
    rule = OneOf(("compact", "delete"))
    assert rule.problem("compact") is None
    assert rule.problem(("compact", "delete")) is None
    assert rule.problem(()) is None
    assert rule.problem(("compact", "gone")) == "String must be one of: compact, delete"


@pytest.mark.parametrize("text", ["2.7", "2.7.2", "2.7-IV2", "0.11.0.3", "1.0", "0.8.2", "2.0.1-SNAPSHOT", "2.7-IV2.1"])
def test_releases_that_2_7_knows_are_allowed(text: str) -> None:
    assert Release().problem(text) is None


@pytest.mark.parametrize("text", ["2.8", "3.0", "0.7", "new", "", "2", "2.7-IV3", "2.7-"])
def test_other_releases_are_refused(text: str) -> None:
    assert Release().problem(text) == f"must be one of: {', '.join(RELEASES[: RELEASES.index('2.7-IV2') + 1])}"


@pytest.mark.parametrize(("text", "is_allowed"), [("2.7", True), ("2.8", True), ("2.8-IV0", True), ("3.0", False)])
def test_brokers_may_speak_the_protocol_of_2_8(text: str, is_allowed: bool) -> None:
    problem = Release(RELEASES[-1]).problem(text)
    assert problem == (None if is_allowed else f"must be one of: {', '.join(RELEASES)}")


def test_a_version_number_means_the_newest_format_of_its_release() -> None:
    assert release_of("2.7.2") == "2.7-IV2"
    assert release_of("2.8") == "2.8-IV1"
    assert release_of("0.10.1") == "0.10.1-IV2"
    assert release_of("9.9") is None
    # as Kafka 2.7.2's ApiVersion reads a full version with further text
    assert release_of("0.10.0-IV1.3") == "0.10.0-IV1"
    assert release_of("2.7-IV0..") == "2.7-IV0"
    assert format_of("0.10.0-IV0.x") == 1
    assert [format_of(each) for each in ("0.8.2", "0.9.0", "0.10.0", "0.10.2-IV0", "0.11.0", "2.7")] == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]


@pytest.mark.parametrize(
    "items", [(), ("*",), ("0:1", "12:3"), ("*", "0:1"), ("*", "a"), ("0:1", ""), ("", ""), ("0:1 ", "\x001:2")]
)
def test_throttled_replicas_are_pairs_or_all(items: tuple[str, ...]) -> None:
    """The validator of Apache Kafka 2.7.2 accepts these values and refuses those of the next test."""
    assert ThrottledReplicas().problem(items) is None


@pytest.mark.parametrize("items", [("0",), ("0:1", "*"), ("a:b",), ("0:1:2",), ("-1:0",), ("0:",), (":1",)])
def test_other_lists_of_throttled_replicas_are_refused(items: tuple[str, ...]) -> None:
    assert ThrottledReplicas().problem(items) == "must be * or a list of partition:broker pairs"


@pytest.mark.parametrize(
    ("text", "release", "expected"),
    [
        ("2.7", "2.7-IV2", True), ("2.7-IV1", "2.7-IV2", False), ("0.10.1-IV0", "0.10.1-IV0", True),
        ("0.10.0.1", "0.10.1-IV0", False), ("2.2.0", "2.3-IV0", False), ("3.0", "0.8.0", False),
    ],
)  # fmt: skip
def test_releases_are_in_order(text: str, release: str, expected: bool) -> None:
    assert is_at_least(text, release) == expected


def test_words_in_any_case() -> None:
    rule = OneOfInAnyCase(("disabled", "upgrade"))
    assert rule.problem("disabled") is rule.problem("UpGrade") is None
    for value in ("other", "", None, 1):
        assert rule.problem(value) == "String must be one of (case insensitive): DISABLED, UPGRADE"
