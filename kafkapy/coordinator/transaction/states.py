"""The states of a transactional id, its transitions, and the error of each request in each state.

Laws
    1. A transactional id changes its state only along ``TRANSITIONS``; ``check_transition`` refuses every other.
    2. Every transition is a record of ``__transaction_state``; between the decision and its acknowledgement, and while
       markers are being written, other requests get CONCURRENT_TRANSACTIONS.
    3. Once PrepareCommit or PrepareAbort is in the log, the outcome is decided: the present coordinator, or the next
       one, writes the markers until each partition has one.
    4. The producer's epoch never falls while its id stays; a producer of another epoch than the present one is fenced.
    5. Partitions are held in Ongoing and Prepare* only.

The tables below have the error, by state, of a request that passed the checks of producer id and epoch (0: none).

The numbers and names are those of Kafka's transaction log (KIP-98); its states 6 (Dead) and 7 (PrepareEpochFence) exist
only in memory and are never written.
"""

from enum import IntEnum
from typing import Final

from kafkapy.protocol.errors import ErrorCode


class TransactionState(IntEnum):
    """The state of a transactional id; the numbers are those of the log."""

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
"""The name of each number, also of those that are never written."""

EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    # a producer has its id and epoch
    EMPTY: frozenset({EMPTY, ONGOING, PREPARE_ABORT}),
    # partitions are added until the producer, its successor or the time-out ends it
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT}),
    # decided: markers are sent
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    # every partition has its marker; an abort without partitions gives the producer of version 2 another epoch
    COMPLETE_COMMIT: frozenset({EMPTY, ONGOING, PREPARE_ABORT}),
    COMPLETE_ABORT: frozenset({EMPTY, ONGOING, PREPARE_ABORT}),
}


class IllegalTransactionTransitionError(AssertionError):
    """A transition that law 1 forbids: a bug, which no request can cause."""


def check_transition(source: TransactionState, target: TransactionState) -> None:
    """Raise ``IllegalTransactionTransitionError`` unless a transactional id may go from ``source`` to ``target``."""
    if target not in TRANSITIONS[source]:
        raise IllegalTransactionTransitionError(f"a transactional id can't go from {source.name} to {target.name}")


_LATER = ErrorCode.CONCURRENT_TRANSACTIONS
_WRONG = ErrorCode.INVALID_TXN_STATE

# InitProducerId; an open transaction is aborted, and its producer repeats the request
INITIALIZE: dict[TransactionState, int] = {
    EMPTY: 0, ONGOING: _LATER, PREPARE_COMMIT: _LATER, PREPARE_ABORT: _LATER, COMPLETE_COMMIT: 0, COMPLETE_ABORT: 0,
}  # fmt: skip

# AddPartitionsToTxn, AddOffsetsToTxn
ADD: dict[TransactionState, int] = {
    EMPTY: 0, ONGOING: 0, PREPARE_COMMIT: _LATER, PREPARE_ABORT: _LATER, COMPLETE_COMMIT: 0, COMPLETE_ABORT: 0,
}  # fmt: skip

# EndTxn; 0 in Complete* answers a repeated request, and changes nothing
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

COMPLETE = frozenset({COMPLETE_COMMIT, COMPLETE_ABORT})

# an unused transactional id is forgotten in these
IDLE = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
