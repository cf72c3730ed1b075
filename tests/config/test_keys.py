"""Texts become values as Java reads them, and values texts as Java writes them."""

import pytest

from kafkapy.config.errors import InvalidConfigError, invalid_value
from kafkapy.config.keys import AtLeast, ConfigKey, ConfigType, Value, format_value


def _parse(kind: ConfigType, text: str) -> object:
    return ConfigKey("some.key", kind, None).parse(text)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "+7", 7),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.DOUBLE, ".5d", 0.5),
        (ConfigType.DOUBLE, "Infinity", float("inf")),
        (ConfigType.BOOLEAN, "\x00true\x1f", True),  # Java trims the characters up to the space, and no others
        (ConfigType.BOOLEAN, "fal\u017fe", False),
        (ConfigType.INT, "٣", 3),
        (ConfigType.LONG, "-1\uff12", -12),
        (ConfigType.DOUBLE, "0x1.8P1f", 3.0),
        (ConfigType.DOUBLE, "-0X.8p-1", -0.25),
        (ConfigType.DOUBLE, "-0x1p9999", float("-inf")),
        (ConfigType.STRING, "\u00a0text\u2003", "\u00a0text\u2003"),
        (ConfigType.LIST, "a\u00a0,\x0bb", ("a\u00a0", "b")),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "a , b,", ("a", "b", "")),
        (ConfigType.STRING, " text ", "text"),
        (ConfigType.CLASS, "java.lang.String", "java.lang.String"),
        (ConfigType.PASSWORD, "secret", "secret"),
    ],
)
def test_a_text_is_parsed_as_by_java(kind: ConfigType, text: str, value: object) -> None:
    """``ConfigDef.parseType`` of Apache Kafka 2.7.2 gives the same values."""
    assert _parse(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "\U0001d7ce"),
        (ConfigType.INT, "1\u00a0"),
        (ConfigType.BOOLEAN, "\u2003true"),
        (ConfigType.INT, ""),
        (ConfigType.SHORT, "-32769"),
        (ConfigType.LONG, "1.0"),
        (ConfigType.DOUBLE, "half"),
        (ConfigType.DOUBLE, "infinity"),
    ],
)
def test_the_error_of_a_text_of_another_type_names_key_value_and_type(kind: ConfigType, text: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"some\.key: (Not a number of type|Expected value to be) ") as refused:
        _parse(kind, text)
    assert refused.value.error_code == 40
    assert f"Invalid value {text} for configuration" in str(refused.value)


def test_a_value_that_the_key_does_not_allow_is_refused() -> None:
    with pytest.raises(
        InvalidConfigError, match=r"Invalid value 0 for configuration some\.key: Value must be at least 1"
    ):
        ConfigKey("some.key", ConfigType.INT, 1, AtLeast(1)).parse("0")


def test_an_error_never_shows_a_password() -> None:
    key = ConfigKey("some.password", ConfigType.PASSWORD, None, AtLeast(1))
    assert key.sensitive
    with pytest.raises(InvalidConfigError) as refused:
        key.parse("hunter2")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("text", "text"),
        (True, "true"),
        (False, "false"),
        (-1, "-1"),
        ((), ""),
        (("a", "b"), "a,b"),
        (0.5, "0.5"),
        (1000.0, "1000.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1e7, "1.0E7"),
        (-12345678.9, "-1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.0, "0.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_value_is_written_as_java_writes_it(value: Value, text: str | None) -> None:
    assert format_value(value) == text
    assert ConfigKey("some.key", ConfigType.STRING, None).format(value) == text


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("log.retention.ms", "ms"),
        ("log.segment.bytes", "bytes"),
        ("log.cleaner.io.max.bytes.per.second", "bytes/s"),
        ("kafka.metrics.polling.interval.secs", "s"),
        ("log.retention.hours", "h"),
        ("num.partitions", None),
    ],
)
def test_the_unit_is_what_the_name_ends_with(name: str, unit: str | None) -> None:
    assert ConfigKey(name, ConfigType.LONG, None).unit == unit


def test_an_error_has_kafkas_code_and_names_key_value_and_allowed_values() -> None:
    error = invalid_value("retention.ms", -2, "Value must be at least -1")
    assert InvalidConfigError.error_code == error.error_code == 40
    assert str(error) == "Invalid value -2 for configuration retention.ms: Value must be at least -1"
