"""How the controller writes: every operation only as long as this broker is still the controller."""

from collections.abc import Sequence
from typing import Final

from kafkapy.cluster.controller_context import ControllerContext
from kafkapy.cluster.store import Check, MetadataStore, Operation, Result, StoreError
from kafkapy.cluster.znodes import ControllerEpochZNode
from kafkapy.turns import pause


class ControllerMovedError(Exception):
    """Another broker has become the controller; this one must stop acting as one."""


class ControllerWriter:
    """Wraps each operation in a multi that first checks the version of ``/controller_epoch`` got at the election."""

    def __init__(self, store: MetadataStore, context: ControllerContext) -> None:
        self.store: Final = store
        self._guard: Final = Check(ControllerEpochZNode.PATH, context.epoch_zk_version)

    async def write(self, operations: Sequence[Operation]) -> list[Result | StoreError]:
        """The result of each operation, or the error that refused it; raises ControllerMovedError."""
        outcomes = await self.store.transactions([self._guard, operation] for operation in operations)
        results: list[Result | StoreError] = []
        for outcome in outcomes:
            await pause()
            if isinstance(outcome, StoreError):
                if outcome.path == ControllerEpochZNode.PATH:
                    raise ControllerMovedError(f"{outcome.path} has changed")
                results.append(outcome)
            else:
                results.append(outcome[1])
        return results
