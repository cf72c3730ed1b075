"""The embedded store of a broker that joins a cluster on a ZooKeeper.

``kafkapy metadata export`` copies the store to the ZooKeeper and leaves it where it is, so that the broker can still
start without the ZooKeeper. From the first start with ``zookeeper.connect`` on, the store is out of date:

    start with zookeeper.connect       checks that the store has no changes that were made after the export
    the broker is registered           renames the store's files to ``….exported``
    start without zookeeper.connect    finds no metadata, says that a ZooKeeper may hold them, and changes nothing
    kafkapy metadata import            writes the files again, from the ZooKeeper
"""

import logging
from typing import Final

from kafkapy.metadata.exchange.metadata_file import read_file_tree
from kafkapy.metadata.exchange.metadata_tree import MetadataError
from kafkapy.metadata.store import MetadataStore, NoNodeError, StoreFileError
from kafkapy.metadata.store_files import EXPORTED_SUFFIX, is_stored, move_aside
from kafkapy.metadata.znodes import ControllerEpochZNode, decoded

logger: Final = logging.getLogger(__name__)


class NotExportedError(StoreFileError):
    """The broker's embedded store has metadata that were never copied to the ZooKeeper."""


async def check_exported(database_path: str, zookeeper: MetadataStore) -> None:
    """Raise NotExportedError if the embedded store is newer than the metadata in the ZooKeeper.

    Each start of a broker that is alone makes it the controller once more, so its controller epoch grows. Without an
    embedded store, or with one that can't be read, there is nothing to compare.
    """
    if not is_stored(database_path):
        return
    try:
        own = read_file_tree(database_path).controller_epoch
    except (StoreFileError, MetadataError) as error:
        logger.warning("The broker's own metadata of the time before the cluster can't be read: %s", error)
        return
    try:
        node = await zookeeper.get(ControllerEpochZNode.PATH)
        theirs = decoded(ControllerEpochZNode.PATH, node.data, ControllerEpochZNode.decode)
    except NoNodeError:
        theirs = 0
    if own > theirs:
        raise NotExportedError(
            f"the broker has run without zookeeper.connect since its metadata were exported: {database_path} is newer "
            f"(controller epoch {own}) than the ZooKeeper ({theirs}). Run kafkapy metadata export again, or move the "
            "file and its journal away to go on with the metadata of the ZooKeeper"
        )


def set_aside(database_path: str) -> None:
    """Rename the embedded store's files, if there are any; a disk that refuses that is a warning."""
    if not is_stored(database_path):
        return
    try:
        move_aside(database_path, EXPORTED_SUFFIX)
    except OSError as error:
        logger.warning("%s could not be renamed and must not be used again: %s", database_path, error)
    else:
        logger.info("The metadata are in the ZooKeeper now: %s is renamed to ….exported", database_path)
