"""The columns of ``kafkapy log dump``: of one width in every row, and no more than the terminal has room for."""

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kafkapy.storage.inspection.dump import Row

GAP: Final = "  "
_WIDTHS: Final = {
    "position": 11, "size": 9, "base_offset": 12, "last_offset": 12, "timestamp": 14, "max_timestamp": 14,
    "offset": 12, "compression": 11, "timestamp_type": 14, "topic": 40, "producer_id": 11, "kind": 13,
    "key": 11, "value": 40,
}  # fmt: skip
_LAST_TO_GO: Final = (
    "base_offset", "last_offset", "count", "position", "size", "kind", "max_timestamp", "compression", "crc",
    "producer_id", "base_sequence", "leader_epoch",
)  # fmt: skip
"""Of a batch, where there is not room for all: these are left out from the end on, after all others."""


def width_of(name: str) -> int:
    """How many characters a column has."""
    return max(_WIDTHS.get(name, 6), len(name))


def terminal_width() -> int | None:
    """How many characters a line of the output may have; None where it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fitting(names: Sequence[str], width: int | None) -> tuple[str, ...]:
    """Those of a batch's columns that ``width`` has room for, in their order; rows of other kinds are whole."""
    if width is None or _LAST_TO_GO[0] not in names:
        return tuple(names)
    left, kept = width + len(GAP), set()
    for name in sorted(names, key=_rank):
        left -= width_of(name) + len(GAP)
        if left < 0:
            break
        kept.add(name)
    return tuple(name for name in names if name in kept)


def _rank(name: str) -> int:
    return _LAST_TO_GO.index(name) if name in _LAST_TO_GO else len(_LAST_TO_GO)


def heading(names: Iterable[str]) -> str:
    """The line above the rows."""
    return _line((name, name.replace("_", " ")) for name in names)


def line(names: Iterable[str], row: Row) -> str:
    """One row."""
    return _line((name, row[name]) for name in names)


def _line(cells: Iterable[tuple[str, Any]]) -> str:
    return GAP.join(f"{value!s:>{width_of(name)}}" for name, value in cells)
