"""The code and the sentence of a refused configuration."""

from kafkapy.config.errors import InvalidConfigError, invalid_value


def test_the_error_carries_kafkas_code_and_says_key_value_and_what_is_allowed() -> None:
    error = invalid_value("retention.ms", -2, "must be at least -1")
    assert InvalidConfigError.error_code == error.error_code == 40
    assert str(error) == "-2 can't be the value of retention.ms: must be at least -1"
