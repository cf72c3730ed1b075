"""``partition.metadata``: the id of the topic that a partition's directory belongs to (KIP-516).

Two lines, ``version: 0`` and ``topic_id:`` with the id in base64url without padding, and no line end after the second,
as in Apache Kafka from 2.8 on; older releases ignore the file.
"""

import logging
from typing import Final
from uuid import UUID

from kafkapy.platform.files import Files
from kafkapy.types import NO_TOPIC_ID, base64_id, id_of

logger: Final = logging.getLogger(__name__)

PARTITION_METADATA_NAME: Final = "partition.metadata"


def encode_partition_metadata(topic_id: UUID) -> bytes:
    """Return the content of the file for a topic's id."""
    return f"version: 0\ntopic_id: {base64_id(topic_id.bytes)}".encode()


def decode_partition_metadata(content: bytes) -> UUID:
    """Return the topic's id; raises ValueError.

    As Apache Kafka does, it reads files of later versions too, which must keep the first two lines.
    """
    lines = content.decode().splitlines()
    if len(lines) < 2:
        raise ValueError(f"{content!r} has not two lines")
    (_, version), (_, text) = lines[0].split(), lines[1].split()
    topic_id = id_of(text)
    if int(version) < 0 or topic_id == NO_TOPIC_ID:
        raise ValueError(f"{content!r} names no topic")
    return topic_id


def read_topic_id(files: Files, directory: str) -> UUID:
    """Return the id in the file of a partition's directory, ``NO_TOPIC_ID`` if it is missing or damaged.

    A damaged file is logged: a power failure may leave it empty. The next LeaderAndIsr has the id, and the file is
    written again; Apache Kafka takes the whole data directory offline. Raises ``OSError``.
    """
    path = f"{directory}/{PARTITION_METADATA_NAME}"
    try:
        return decode_partition_metadata(files.read(path))
    except FileNotFoundError:
        return NO_TOPIC_ID
    except ValueError as error:
        logger.warning("%s is damaged, and counts as missing: %s", path, error)
        return NO_TOPIC_ID
