"""CRC-32C (Castagnoli), computed by the processor's instructions where it has them.

The ``crc32c`` package looks up its own version when it is imported, which takes a tenth of a broker's start and two
megabytes. So the package's extension module is loaded without the package, if it is found where it is expected.
"""

from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol

ReadableBuffer = bytes | bytearray | memoryview


class Crc(Protocol):
    """``crc32c.crc32c``."""

    def __call__(self, data: ReadableBuffer, crc: int = 0, /) -> int:
        """Return the CRC of ``data``, continuing from ``crc``, the CRC of the bytes before it."""
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
