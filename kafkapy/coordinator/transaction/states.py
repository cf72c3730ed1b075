"""The states of a transactional id, and what each request gets in each: the one place where they are written down.

Laws
    1. A transactional id moves only along ``MOVES``; ``check_move`` refuses everything else.
    2. Every move is a record of ``__transaction_state``; between the decision and its acknowledgement, and while
       markers are being written, everybody else gets CONCURRENT_TRANSACTIONS.
    3. Once PrepareCommit or PrepareAbort is in the log, so it ends: the markers are written until each partition has
       its own, by whoever coordinates then.
    4. The producer's epoch never falls while its id stays; a producer of another epoch than the present one is fenced.
    5. Partitions are held in Ongoing and Prepare* only.

The tables below say which error a request gets that passed the checks of producer id and epoch (0: none).

The numbers and names are those of Kafka's transaction log (KIP-98); its 6 (Dead) and 7 (PrepareEpochFence) are
states that are passed through in memory and never written.
"""

from enum import IntEnum
from typing import Final

from kafkapy.protocol.errors import ErrorCode


class TransactionState(IntEnum):
    """Where a transactional id is; the numbers stand in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


STATE_NAMES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
    "PrepareEpochFence",
)  # fmt: skip
"""What each number is called, also those that are never written."""

EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

MOVES: dict[TransactionState, frozenset[TransactionState]] = {
    # a producer has been given its id and epoch
    EMPTY: frozenset({EMPTY, ONGOING}),
    # partitions are added until the producer, its successor or the time-out ends it
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT}),
    # decided: markers go out
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    # every partition has its marker
    COMPLETE_COMMIT: frozenset({EMPTY, ONGOING}),
    COMPLETE_ABORT: frozenset({EMPTY, ONGOING}),
}


class IllegalMoveError(AssertionError):
    """The code tried to move a transactional id against law 1: a bug, never a client's fault."""


def check_move(source: TransactionState, target: TransactionState) -> None:
    """Raise ``IllegalMoveError`` unless a transactional id may go from ``source`` to ``target``."""
    if target not in MOVES[source]:
        raise IllegalMoveError(f"a transactional id can't go from {source.name} to {target.name}")


_LATER = ErrorCode.CONCURRENT_TRANSACTIONS
_WRONG = ErrorCode.INVALID_TXN_STATE

# InitProducerId; an open transaction is aborted, and its producer asks again
INITIALIZE: dict[TransactionState, int] = {
    EMPTY: 0, ONGOING: _LATER, PREPARE_COMMIT: _LATER, PREPARE_ABORT: _LATER, COMPLETE_COMMIT: 0, COMPLETE_ABORT: 0,
}  # fmt: skip

# AddPartitionsToTxn, AddOffsetsToTxn
ADD: dict[TransactionState, int] = {
    EMPTY: 0, ONGOING: 0, PREPARE_COMMIT: _LATER, PREPARE_ABORT: _LATER, COMPLETE_COMMIT: 0, COMPLETE_ABORT: 0,
}  # fmt: skip

# EndTxn; 0 in Complete* answers a request that was sent again, and moves nothing
COMMIT: dict[TransactionState, int] = {
    EMPTY: _WRONG, ONGOING: 0,
    PREPARE_COMMIT: _LATER, PREPARE_ABORT: _WRONG,
    COMPLETE_COMMIT: 0, COMPLETE_ABORT: _WRONG,
}  # fmt: skip
ABORT: dict[TransactionState, int] = {
    EMPTY: _WRONG, ONGOING: 0,
    PREPARE_COMMIT: _WRONG, PREPARE_ABORT: _LATER,
    COMPLETE_COMMIT: _WRONG, COMPLETE_ABORT: 0,
}  # fmt: skip

PREPARED = frozenset({PREPARE_COMMIT, PREPARE_ABORT})

# a transactional id that nobody uses is forgotten in these
IDLE = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
