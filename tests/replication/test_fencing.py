import pytest

from kafkapy.metadata.errors import StaleBrokerEpochError, StaleControllerEpochError
from kafkapy.replication.fencing import ControllerFence


def test_only_the_newest_controller_is_obeyed() -> None:
    fence = ControllerFence()
    fence.check(1, -1)
    fence.broker_epoch = 27
    fence.check(3, 27)
    fence.check(3, 28)
    fence.check(3, -1)
    with pytest.raises(StaleBrokerEpochError):
        fence.check(9, 26)
    assert fence.controller_epoch == 3
    with pytest.raises(StaleControllerEpochError):
        fence.check(2, 27)
    fence.check(4, 27)
    assert fence.controller_epoch == 4
