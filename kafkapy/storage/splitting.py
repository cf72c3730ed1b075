"""Cutting a segment in two where its offsets get too far from its name.

An index holds offsets as 31 bits above the base. Releases of Apache Kafka before 1.1 compacted segments together that
reach further; 2.7 cuts these when it meets them, and so does a recovery here.
"""

from typing import TYPE_CHECKING, Final

from kafkapy.storage.replace import CLEANED_SUFFIX
from kafkapy.storage.segment import LOG_SUFFIX, Segment

if TYPE_CHECKING:
    from kafkapy.storage.log import Log

_PIECE_BYTES: Final = 1024 * 1024


def split(log: "Log", segment: Segment, position: int, base_offset: int) -> Segment:
    """Move what lies from ``position`` on into a new segment, next in the log's list, whose indexes are to be made.

    A crash in between leaves both whole, or the records twice: then those of the new one count. Raises ``OSError``.
    """
    files = log.storage.files
    path = f"{log.directory}/{base_offset:020d}{LOG_SUFFIX}"
    copied = position
    while copied < segment.size:
        piece = segment.log.read_at(min(_PIECE_BYTES, segment.size - copied), copied)
        files.write(path + CLEANED_SUFFIX, bytearray(piece), copied - position)
        copied += len(piece)
    files.sync_path(path + CLEANED_SUFFIX)
    new = log.new_segment(base_offset)
    new.create()
    files.rename(path + CLEANED_SUFFIX, path)
    files.sync_path(log.directory)
    files.truncate(segment.log.path, position)
    new.size, segment.size = segment.size - position, position
    log.segments.replace([segment], [segment, new])
    return new
