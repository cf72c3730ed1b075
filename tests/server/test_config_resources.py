"""What the configuration handlers share; the handlers' own tests go through it in full."""

import pytest

from kafkapy.config.errors import InvalidAlterationError
from kafkapy.server.config_resources import ResourceType, check_types, refuse_loggers


def test_the_three_types_pass_and_no_other() -> None:
    check_types([int(kind) for kind in ResourceType])
    with pytest.raises(InvalidAlterationError, match="There is no resource type 3"):
        check_types([2, 3])


def test_loggers_are_refused_with_what_to_do_instead() -> None:
    assert refuse_loggers().error_code == 42
    assert "--log-level" in str(refuse_loggers())
