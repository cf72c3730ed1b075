"""What the configuration handlers share; the handlers' own tests go through it in full."""

import pytest

from kafkapy.config.errors import InvalidAlterationError
from kafkapy.server.config_resources import ResourceType, check_types


def test_the_three_types_pass_and_no_other() -> None:
    check_types([int(kind) for kind in ResourceType])
    with pytest.raises(InvalidAlterationError, match="There is no resource type 3"):
        check_types([2, 3])
