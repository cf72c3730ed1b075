"""A disk on which every operation under one path fails, once a test has set it."""

import errno
import os

from kafkapy.platform.descriptors import Descriptor
from kafkapy.platform.file_lock import HeldLock
from kafkapy.platform.files import Files


class BrokenDisk(Files):
    """Every operation under ``broken`` fails with ``number``, also on descriptors that were opened there."""

    def __init__(self, number: int = errno.EIO) -> None:
        super().__init__()
        self.number = number
        self.broken = "nothing"
        self._opened: dict[int, str] = {}

    def _check(self, path: str) -> None:
        if path.startswith(self.broken):
            raise OSError(self.number, os.strerror(self.number), path)

    def open(self, path: str, flags: int = os.O_RDWR) -> Descriptor:
        self._check(path)
        descriptor = super().open(path, flags)
        self._opened[descriptor.number] = path
        return descriptor

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        self._check(self._opened[descriptor.number])
        super().write_at(descriptor, data, position)

    def read_at(self, descriptor: Descriptor, size: int, position: int) -> bytes:
        self._check(self._opened[descriptor.number])
        return super().read_at(descriptor, size, position)

    def create(self, path: str) -> None:
        self._check(path)
        super().create(path)

    def rename(self, path: str, target: str) -> None:
        self._check(path)
        super().rename(path, target)

    def make_directory(self, path: str) -> None:
        self._check(path)
        super().make_directory(path)

    def list_directory(self, path: str) -> list[tuple[str, int]]:
        self._check(path)
        return super().list_directory(path)

    def remove(self, path: str) -> None:
        self._check(path)
        super().remove(path)

    def remove_directory(self, path: str) -> None:
        self._check(path)
        super().remove_directory(path)

    def lock(self, path: str) -> HeldLock:
        self._check(path)
        return super().lock(path)
