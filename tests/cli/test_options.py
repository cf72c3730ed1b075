"""Options that several commands have."""

from typing import get_args

from kafkapy.cli import options


def test_the_default_broker_is_on_this_machine() -> None:
    assert options.DEFAULT_BOOTSTRAP == "127.0.0.1:9092"
    assert get_args(options.Bootstrap)[1].envvar == "KAFKAPY_BOOTSTRAP"
