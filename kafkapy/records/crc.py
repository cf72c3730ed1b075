"""CRC-32C (Castagnoli), in hardware where there is some.

The ``crc32c`` package asks for its own version when it is imported, which takes a tenth of a broker's start and two
megabytes. So its extension is loaded by itself, unless it lies elsewhere than it does today.
"""

from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol

ReadableBuffer = bytes | bytearray | memoryview


class Crc(Protocol):
    """``crc32c.crc32c``."""

    def __call__(self, data: ReadableBuffer, crc: int = 0, /) -> int:
        """Return the CRC of ``data`` behind what ``crc`` is the CRC of."""
        ...


def load(find: Callable[..., ModuleSpec | None] = PathFinder.find_spec) -> Crc:
    """Return the function ``(data, crc so far) -> crc``."""
    package = find("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = find("crc32c._crc32c", places) if places else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c

        return crc32c
    extension = module_from_spec(spec)
    spec.loader.exec_module(extension)
    function: Crc = extension.crc32c
    return function


crc32c: Final = load()
