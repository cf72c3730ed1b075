"""Which controller a broker obeys: the highest epoch that it has seen, and only for its current registration."""

from kafkapy.metadata.errors import StaleBrokerEpochError, StaleControllerEpochError
from kafkapy.types import NO_EPOCH


class ControllerFence:
    """Shared by the handlers of LeaderAndIsr, UpdateMetadata and StopReplica of one broker."""

    __slots__ = ("broker_epoch", "controller_epoch")

    def __init__(self) -> None:
        self.broker_epoch = NO_EPOCH
        self.controller_epoch = 0

    def check(self, controller_epoch: int, broker_epoch: int) -> None:
        """Let a request of the controller pass, remembering its epoch.

        A broker epoch below this broker's is from before its last start: StaleBrokerEpochError. (-1 passes:
        the sender does not know the epoch. A higher one passes too: the controller may learn of a registration first.)
        A controller epoch below the highest one seen: StaleControllerEpochError.
        """
        if NO_EPOCH != broker_epoch < self.broker_epoch:
            raise StaleBrokerEpochError(f"Broker epoch {broker_epoch} is older than {self.broker_epoch}.")
        if controller_epoch < self.controller_epoch:
            raise StaleControllerEpochError(
                f"Controller epoch {controller_epoch} is older than {self.controller_epoch}."
            )
        self.controller_epoch = controller_epoch
