"""Long work in pieces: how coordinators go through long lists (see ``kafkapy/turns.py``)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kafkapy.metrics import Counters
from kafkapy.turns import Steps, finish

T = TypeVar("T")

PIECE: Final = 64
"""Elements between two places to pause, where each costs some microseconds."""

Run = Callable[[Steps[None]], object]
"""Runs work that no request waits for: to its end, or a first piece of it now and the rest in turns."""

Soon = Callable[[Callable[[], None]], object]
"""Calls what it is given, now or as soon as what is under way is done."""


def at_once(step: Callable[[], None]) -> None:
    """Call ``step`` now."""
    step()


@dataclass(frozen=True, slots=True)
class Background:
    """What a coordinator takes from its broker for work beside requests; the defaults need no event loop.

    ``soon`` calls what writes the markers of an EndTxn, which its request does not wait for.
    """

    run: Run = finish
    soon: Soon = at_once
    counters: Counters = field(default_factory=Counters)


def pieces(elements: Sequence[T], size: int = PIECE) -> Iterator[Sequence[T]]:
    """Cut ``elements`` into parts of ``size``."""
    for start in range(0, len(elements), size):
        yield elements[start : start + size]
