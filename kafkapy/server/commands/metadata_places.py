"""Where ``kafkapy metadata`` reads and writes: a broker's own store, a ZooKeeper, a document."""

import sys
from collections.abc import Sequence
from typing import Final, Protocol

from kafkapy.cluster.metadata_changes import Change
from kafkapy.cluster.metadata_file import metadata_path, read_file_tree, write_file_tree
from kafkapy.cluster.metadata_json import decode_document, encode_document
from kafkapy.cluster.metadata_tree import MetadataError, MetadataTree
from kafkapy.storage.files import Files


class Place(Protocol):
    """Holds a cluster's metadata; ``str()`` names it to the user."""

    def read(self) -> MetadataTree:
        """What is there; an empty tree when nothing is."""
        ...

    def write(self, source: MetadataTree, found: Sequence[Change], now_ms: int) -> None:
        """Bring it to ``source``; ``found`` is what differs."""
        ...


class OwnPlace:
    """The embedded store in the first log directory."""

    def __init__(self, log_directory: str) -> None:
        self._path = metadata_path(log_directory)

    def __str__(self) -> str:
        return self._path

    def read(self) -> MetadataTree:
        """See ``Place.read``; raises ``StoreFileError``."""
        return read_file_tree(self._path)

    def write(self, source: MetadataTree, found: Sequence[Change], now_ms: int) -> None:
        """See ``Place.write``; raises ``StoreFileError``."""
        write_file_tree(self._path, source, found, now_ms)


class ZooKeeperPlace:
    """The tree below a chroot; kazoo is imported when it is used."""

    def __init__(self, address: str) -> None:
        from kafkapy.cluster.zookeeper_tree import ZooKeeperAddress

        self._address = ZooKeeperAddress.parse(address)

    def __str__(self) -> str:
        return str(self._address)

    def read(self) -> MetadataTree:
        """See ``Place.read``; raises MetadataError when nothing answers."""
        from kafkapy.cluster.zookeeper_tree import connected

        with connected(self._address) as tree:
            return tree.read()

    def write(self, source: MetadataTree, found: Sequence[Change], now_ms: int) -> None:  # noqa: ARG002  # its clock
        """See ``Place.write``."""
        from kafkapy.cluster.zookeeper_tree import connected

        with connected(self._address) as tree:
            tree.write(source, found)


class DocumentPlace:
    """A JSON document in a file; ``-`` is what is read from standard input."""

    TERMINAL: Final = "-"

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = Files()

    def __str__(self) -> str:
        return self._path

    def read(self) -> MetadataTree:
        """See ``Place.read``; raises MetadataError when it is something else, or can't be read."""
        if self._path == self.TERMINAL:
            return decode_document(sys.stdin.buffer.read(), "the input")
        if not self._files.exists(self._path):
            return MetadataTree({})
        try:
            return decode_document(self._files.read(self._path), self._path)
        except OSError as error:
            raise MetadataError(f"{self._path} can't be read: {error.strerror}") from error

    def write(self, source: MetadataTree, found: Sequence[Change], now_ms: int) -> None:  # noqa: ARG002  # it is whole
        """See ``Place.write``; raises MetadataError when the file can't be written."""
        try:
            self._files.replace(self._path, encode_document(source))
        except OSError as error:
            raise MetadataError(f"{self._path} can't be written: {error.strerror}") from error
