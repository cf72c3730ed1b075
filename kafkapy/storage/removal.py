"""Removal of files and folders in steps: a large file leaves the page cache piece by piece before it is removed."""

from collections.abc import Iterable, Iterator

from kafkapy.storage.files import UNCACHED_SIZE, Files


def files_removal(files: Files, paths: Iterable[str]) -> Iterator[None]:
    """Remove those of ``paths`` that are there, in steps for ``Flusher.run_gently``; raises ``OSError``."""
    for path in paths:
        yield from files.uncache(path)
        files.remove(path)


def folder_removal(files: Files, path: str) -> Iterator[None]:
    """Remove a partition's folder with the files in it, if it is there, in such steps; raises ``OSError``."""
    for name, size in files.list_directory(path) if files.exists(path) else ():
        if size > UNCACHED_SIZE:
            yield from files.uncache(f"{path}/{name}")
    files.remove_directory(path)
