"""A real ext4 after a power failure: bytes that were not fsynced when the broker was killed are lost.

The kernel's shutdown request (as xfstests use it) stops the file system at once without writing its journal or its
pages; the next mount replays the journal as after a power failure.
"""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.kafkapy_process import KafkapyProcess

EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_LOG_FLUSH = 2
PATIENCE_S = 30
TOOLS = ("mkfs.ext4", "losetup", "mount", "umount")


class NoPowerCutError(Exception):
    """This machine can't do it; the message has the reason."""


class PowerCutDisk:
    """An ext4 in a file, mounted at `path` while it is entered."""

    def __init__(self, directory: Path, *, size_mb: int = 512) -> None:
        self.path = directory / "disk"
        self._image = directory / "disk.img"
        self._size_mb = size_mb
        self._device = ""

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or not all(map(shutil.which, TOOLS)):
            raise NoPowerCutError("only root can mount a file system, with mkfs.ext4 and losetup")
        self.path.mkdir()
        with self._image.open("wb") as file:
            file.truncate(self._size_mb * 2**20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self._image], check=True)
        found = subprocess.run(
            ["losetup", "--find", "--show", self._image], check=False, capture_output=True, text=True
        )
        if found.returncode != 0:
            raise NoPowerCutError(found.stderr.strip())
        self._device = found.stdout.strip()
        try:
            self._mount()
        except subprocess.CalledProcessError as error:
            subprocess.run(["losetup", "--detach", self._device], check=True)
            raise NoPowerCutError("no ext4 can be mounted here") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        subprocess.run(["umount", "--lazy", self.path], check=True)
        subprocess.run(["losetup", "--detach", self._device], check=True)
        self._image.unlink()

    def _mount(self) -> None:
        subprocess.run(["mount", "-t", "ext4", self._device, self.path], check=True)

    def _unmount(self) -> None:
        """A worker process of a broker that was killed ends by itself, and holds files until then."""
        deadline = time.monotonic() + PATIENCE_S
        while subprocess.run(["umount", self.path], check=False, capture_output=True).returncode:
            assert time.monotonic() < deadline, f"{self.path} is in use"
            time.sleep(0.02)

    def shut_down(self) -> None:
        """Stop the file system at once."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def cut(self) -> None:
        """Stop the file system at once, and mount the state of the disk."""
        self.shut_down()
        self._unmount()
        self._mount()

    def end(self, broker: KafkapyProcess) -> None:
        """Cut the power of `broker`'s machine: no later write reaches the disk, and no later response a client.

        The process is stopped first. Fsyncs that run while the file system shuts down may report success for lost bytes
        (seen with Linux 6.18); after a power failure no client would get that response.
        """
        assert broker.pid is not None
        freeze(broker.pid)
        self.shut_down()
        broker.kill()
        self._unmount()
        self._mount()


def freeze(pid: int) -> None:
    """Stop a process at once; only the present system call of each thread may end."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline, f"process {pid} does not stop"
        time.sleep(0.001)
