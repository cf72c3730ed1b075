"""Chooses ``scan``, ``compact``, ``entries`` and ``alike``: the compiled modules if installed, else the interpreted.

``KAFKAPY_INTERPRETED_SCAN=1`` in the environment chooses the interpreted modules in any case (tests run both).
"""

import os
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType
from typing import Any, Final, cast

DIRECTORY = os.path.dirname(__file__)
INTERPRETED_VARIABLE = "KAFKAPY_INTERPRETED_SCAN"

ScanResult = tuple[int, int, int, int, int, bool]
"""Position or fault, smallest and largest timestamp delta, place of the largest, null keys, offsets in order."""

UsualBatch = tuple[int, int, int, int, int, int, int, bool]
"""CRC, number of records, largest timestamp, place of the first record with it, the producer's id and epoch, base
sequence, whether a transaction has it. The compiled function makes this tuple; a named one would cost a call."""

Scan = Callable[[memoryview, int], ScanResult]
CheckUsual = Callable[["bytearray | memoryview", int, int, bool], UsualBatch | None]


def interpreted_module(name: str = "scan") -> ModuleType:
    """Load ``scan.py`` or another of the four as a separate, interpreted module, also where a compiled one exists."""
    loader = SourceFileLoader(f"kafkapy.records.{name}", os.path.join(DIRECTORY, f"{name}.py"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def is_compiled(module: ModuleType) -> bool:
    """Whether the module runs as machine code."""
    return not str(module.__file__).endswith(".py")


def choose(name: str = "scan") -> ModuleType:
    """The module ``scan``, ``compact``, ``entries`` or ``alike`` that this process uses."""
    if os.environ.get(INTERPRETED_VARIABLE) == "1":
        return interpreted_module(name)
    return import_module(f"kafkapy.records.{name}")


INTERFACE: Final = 2
"""The ``INTERFACE`` of ``scan.py`` that this file uses."""


def check_interface(module: ModuleType) -> ModuleType:
    """Return ``module``; raises ``ImportError`` if it was compiled from another version of ``scan.py``."""
    if getattr(module, "INTERFACE", None) != INTERFACE:
        raise ImportError(
            f"{module.__file__} was compiled from another version of scan.py. Install kafkapy again (`make setup` in "
            "its repository), or delete that file: then the interpreted module is used, which is slower."
        )
    return module


_chosen = check_interface(choose())
scan = cast(Scan, _chosen.scan)
check_usual = cast(CheckUsual, _chosen.check_usual)
FAULTS = cast(tuple[str, ...], _chosen.FAULTS)
_entries = choose("entries")
scan_entries = cast(Callable[[memoryview, int], tuple[int, int, int, int, int, bool, int]], _entries.scan_entries)
number_entries = cast(Callable[[memoryview, int], None], _entries.number_entries)
rewrite_entries = cast(Callable[[memoryview, int, memoryview], int], _entries.rewrite_entries)
latest_alike = cast(
    Callable[[bytes, int, int, dict[bytes, Any]], tuple[dict[Any, int], int]], choose("alike").latest_alike
)


def fault_message(position: int) -> str:
    """The sentence for a ``position`` below zero."""
    return FAULTS[-position - 1]


def scan_is_compiled() -> bool:
    """Whether the per-record scan of this process is compiled (about 15 ns per record against 2 µs)."""
    return is_compiled(_chosen)
