"""Checks that a controller's request has the highest controller epoch seen so far and this broker's broker epoch."""

from kafkapy.metadata.errors import StaleBrokerEpochError, StaleControllerEpochError
from kafkapy.types import NO_EPOCH


class ControllerFence:
    """Shared by the handlers of LeaderAndIsr, UpdateMetadata and StopReplica of one broker."""

    __slots__ = ("broker_epoch", "controller_epoch")

    def __init__(self) -> None:
        self.broker_epoch = NO_EPOCH
        self.controller_epoch = 0

    def check(self, controller_epoch: int, broker_epoch: int) -> None:
        """Check the epochs in a request of the controller, and remember the controller epoch.

        Raises StaleBrokerEpochError for a broker epoch below this broker's, which is from before its last start.
        (-1 is accepted: the sender does not know the epoch. A higher one is accepted too: the controller may learn of
        a registration first.) Raises StaleControllerEpochError for a controller epoch below the highest one seen.
        """
        if NO_EPOCH != broker_epoch < self.broker_epoch:
            raise StaleBrokerEpochError(f"Broker epoch {broker_epoch} is older than {self.broker_epoch}.")
        if controller_epoch < self.controller_epoch:
            raise StaleControllerEpochError(
                f"Controller epoch {controller_epoch} is older than {self.controller_epoch}."
            )
        self.controller_epoch = controller_epoch
