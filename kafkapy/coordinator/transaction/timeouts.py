"""Which transactions have been open for too long, and which transactional ids nobody uses any more."""

from collections.abc import Iterable

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.transaction import Transaction


def timed_out(transactions: Iterable[Transaction], now_ms: int) -> list[Transaction]:
    """Those to abort: open for longer than their producers said they may be."""
    return [
        each
        for each in transactions
        if each.data.state is states.ONGOING
        and not each.is_moving
        and each.data.start_ms + each.data.timeout_ms < now_ms
    ]


def expired(transactions: Iterable[Transaction], now_ms: int, expiration_ms: int) -> list[Transaction]:
    """Those to forget: nothing is open, and nothing has happened for ``expiration_ms``."""
    return [
        each
        for each in transactions
        if each.data.state in states.IDLE and not each.is_moving and each.data.last_update_ms <= now_ms - expiration_ms
    ]
