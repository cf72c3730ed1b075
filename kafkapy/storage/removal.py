"""How segments go: out of the list at once, ``.deleted`` behind their names, the files after ``file.delete.delay.ms``.

Until then whoever found a segment before can go on reading it. A start removes what is left of that name.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkapy.storage.files import UNCACHED_SIZE, Files
from kafkapy.storage.segment import DELETED_SUFFIX, Segment

if TYPE_CHECKING:
    from kafkapy.storage.log import Log, Storage


def remove_segments(log: "Log", segments: Sequence[Segment]) -> None:
    """Take ``segments``, neighbours in the log's list, out of it; the caller sees to it that one is left or added.

    Raises ``OSError``; those that were not renamed yet stay in the list.
    """
    renamed: list[Segment] = []
    try:
        for segment in segments:
            segment.rename(DELETED_SUFFIX)
            renamed.append(segment)
    finally:
        if renamed:
            log.segments.replace(renamed, ())
        _remove_later(log, renamed)


def delete_segment_files(log: "Log", segments: Sequence[Segment]) -> None:
    """Rename the files of ``segments``, which no list holds any more, if they have no such name; remove them later.

    The renaming goes in the order given: a crash meanwhile must leave no gap in the log. Raises ``OSError``.
    """
    for segment in segments:
        if not segment.suffix.endswith(DELETED_SUFFIX):
            segment.rename(DELETED_SUFFIX)
    _remove_later(log, segments)


def _remove_later(log: "Log", segments: Sequence[Segment]) -> None:
    for segment in segments:
        log.storage.clock.call_later(log.config.file_delete_delay_ms, _remove, log.storage, segment)


def _remove(storage: "Storage", segment: Segment) -> None:
    segment.close()
    paths = segment.paths()
    storage.flusher.run_gently(files_removal(storage.files, paths))


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
