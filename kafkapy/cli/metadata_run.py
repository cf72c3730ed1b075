"""The implementation of the commands of ``kafkapy metadata``."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import typer

from kafkapy.cli.output import counted, done, fail, fail_with, say, show
from kafkapy.cli.settings import UsageError, build_config
from kafkapy.clock import SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.metadata.exchange import metadata_checks as checks
from kafkapy.metadata.exchange.metadata_changes import GONE, NEW, OTHER, NodeChange, changes, refuse_overwriting
from kafkapy.metadata.exchange.metadata_file import metadata_path, read_file_tree, write_file_tree
from kafkapy.metadata.exchange.metadata_json import decode_document, encode_document
from kafkapy.metadata.exchange.metadata_rebuild import rebuilt
from kafkapy.metadata.exchange.metadata_tree import KINDS, MetadataError, MetadataTree
from kafkapy.metadata.store import StoreDamagedError, StoreFileError
from kafkapy.metadata.store_files import is_stored, move_aside
from kafkapy.metadata.zookeeper_address import ZooKeeperAddress
from kafkapy.metadata.zookeeper_security import security_of
from kafkapy.platform.errors import LogDirectoryError
from kafkapy.platform.files import Files
from kafkapy.storage.data_directory import DataDirectory

# The places that ``kafkapy metadata`` reads and writes: a broker's own store, a ZooKeeper, a document.


class MetadataPlace(Protocol):
    """Holds a cluster's metadata; ``str()`` names it to the user."""

    def read(self) -> MetadataTree:
        """Read the metadata; an empty tree if there is none."""
        ...

    def write(self, source: MetadataTree, found: Sequence[NodeChange], now_ms: int) -> None:
        """Change the stored metadata to ``source``; ``found`` are the differences."""
        ...


class OwnPlace:
    """The embedded store in the first log directory."""

    def __init__(self, log_directory: str) -> None:
        self._path = metadata_path(log_directory)

    def __str__(self) -> str:
        return self._path

    def read(self) -> MetadataTree:
        """See ``MetadataPlace.read``; raises ``StoreFileError``."""
        return read_file_tree(self._path)

    def write(self, source: MetadataTree, found: Sequence[NodeChange], now_ms: int) -> None:
        """See ``MetadataPlace.write``; raises ``StoreFileError``."""
        write_file_tree(self._path, source, found, now_ms)


class ZooKeeperPlace:
    """The tree below a chroot, reached with the security of ``config``; kazoo is imported at the first access."""

    def __init__(self, address: str, config: BrokerConfig) -> None:
        self._address = ZooKeeperAddress.parse(address)
        self._security = security_of(config, SystemClock().now_ms())

    def __str__(self) -> str:
        return str(self._address)

    def read(self) -> MetadataTree:
        """See ``MetadataPlace.read``; raises MetadataError when no server answers."""
        from kafkapy.metadata.exchange.zookeeper_tree import connected

        with connected(self._address, self._security) as tree:
            return tree.read()

    def write(self, source: MetadataTree, found: Sequence[NodeChange], now_ms: int) -> None:  # noqa: ARG002  # its clock
        """See ``MetadataPlace.write``."""
        from kafkapy.metadata.exchange.zookeeper_tree import connected

        with connected(self._address, self._security) as tree:
            tree.write(source, found)


class DocumentPlace:
    """A JSON document in a file; ``-`` is standard input."""

    TERMINAL: Final = "-"

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = Files()

    def __str__(self) -> str:
        return self._path

    def read(self) -> MetadataTree:
        """See ``MetadataPlace.read``; raises MetadataError when the file is no such document, or can't be read."""
        if self._path == self.TERMINAL:
            return decode_document(sys.stdin.buffer.read(), "the input")
        if not self._files.exists(self._path):
            return MetadataTree({})
        try:
            return decode_document(self._files.read(self._path), self._path)
        except OSError as error:
            raise MetadataError(f"{self._path} can't be read: {error.strerror}") from error

    def write(self, source: MetadataTree, found: Sequence[NodeChange], now_ms: int) -> None:  # noqa: ARG002  # it is whole
        """See ``MetadataPlace.write``; raises MetadataError when the file can't be written."""
        try:
            self._files.replace(self._path, encode_document(source))
        except OSError as error:
            raise MetadataError(f"{self._path} can't be written: {error.strerror}") from error


class Places(NamedTuple):
    """The options that locate the broker's directories, and the other place: a ZooKeeper or a document."""

    data: Path | None
    config: Path | None
    zookeeper: str | None
    file: str | None


class RunOptions(NamedTuple):
    """Options that the commands share."""

    overwrite: bool
    dry_run: bool
    as_json: bool


def export(places: Places, options: RunOptions) -> None:
    """Write a stopped broker's metadata to a ZooKeeper, for Apache Kafka to start on its data, or to a document."""
    with _failures_in_one_line(), _stopped(places.data, places.config, has_metadata=True) as directories:
        target = _other_place(places)
        tree = OwnPlace(directories[0].path).read()
        if tree.cluster_id is None:
            raise MetadataError(_no_metadata(directories[0].path))
        if str(target) == DocumentPlace.TERMINAL:
            typer.echo(encode_document(tree).decode(), nl=False)
            return
        found = checks.Directories.read(directories)
        if not isinstance(target, ZooKeeperPlace):
            _carry(tree, target, found, directories[0].path, options)
            return
        reserved_max = _built(places.data, places.config).integer("reserved.broker.max.id")
        broker_id = _broker_id(tree, found)
        for_kafka = tree.for_kafka().with_ids_taken([broker_id], reserved_max)
        _carry(for_kafka, target, found, directories[0].path, options, _left_out(tree))
        if not options.as_json and not options.dry_run:
            is_generated = broker_id > reserved_max
            typer.echo(_advice(broker_id, target, directories, is_generated=is_generated))


def import_(places: Places, options: RunOptions, *, only_this_broker: bool) -> None:
    """Read a stopped cluster's metadata from a ZooKeeper or a document, for kafkapy to start on its data directory."""
    with _failures_in_one_line(), _stopped(places.data, places.config) as directories:
        source = _other_place(places)
        tree = source.read()
        if tree.cluster_id is None:
            where = "the address, and the chroot in zookeeper.connect" if places.zookeeper else "the file's name"
            raise MetadataError(f"{source} holds no cluster: check {where}")
        tree.check()
        if tree.live_brokers:
            ids = ", ".join(map(str, tree.live_brokers))
            raise MetadataError(
                f"brokers are running on {source} ({ids}): stop them, then wait for their sessions' end"
            )
        found = checks.Directories.read(directories)
        broker_id = None if found.identity is None else found.identity.broker_id
        if only_this_broker:
            if broker_id is None:
                raise MetadataError(
                    f"{directories[0].path} does not say which broker it belongs to: it has no broker.id"
                )
            tree = checks.only_of_broker(tree, broker_id)
        checks.require_one_broker(tree, broker_id)
        tree = tree.with_topic_ids(found.topic_ids)
        target = OwnPlace(directories[0].path)
        if isinstance(source, ZooKeeperPlace):
            tree = tree.with_own_keys_of(target.read())
        _carry(tree, target, found, directories[0].path, options)


def rebuild(data: Path | None, config: Path | None, options: RunOptions) -> None:
    """Rebuild a stopped broker's lost metadata from its data directories."""
    with _failures_in_one_line(), _stopped(data, config) as directories:
        target = OwnPlace(directories[0].path)
        is_damaged = False
        try:
            there = target.read()
        except StoreDamagedError:
            is_damaged, there = True, MetadataTree({})
        if there.cluster_id is not None:
            raise MetadataError(
                f"{target} holds the metadata of cluster {there.cluster_id}. It is rebuilt only if it is lost: "
                "move the file and its journal away first"
            )
        identity = checks.Directories.read(directories).identity
        tree, warned = rebuilt(Files(), directories, identity, _built(data, config))
        tree.check()
        found = changes(tree, MetadataTree({}))
        if not options.dry_run:
            if is_damaged:
                move_aside(str(target))
            target.write(tree, found, SystemClock().now_ms())
        _report(tree, target, found, warned, options)


@contextmanager
def _failures_in_one_line() -> Iterator[None]:
    try:
        yield
    except (MetadataError, StoreFileError, LogDirectoryError, UsageError, InvalidConfigError) as error:
        fail(str(error))
    except OSError as error:
        fail_with(error)


@contextmanager
def _stopped(
    data: Path | None, config: Path | None, *, has_metadata: bool = False
) -> Iterator[Sequence[DataDirectory]]:
    """The data directories of a broker that does not run, locked for the length of the block.

    With ``has_metadata`` the first one must have an embedded store; this is checked before the lock creates a file.
    """
    built = _built(data, config)
    files = Files()
    for path in built.log_dirs:
        if not files.exists(path):
            raise MetadataError(f"data directory {path} does not exist: give another one with --data")
    if has_metadata and not is_stored(metadata_path(built.log_dirs[0])):
        raise MetadataError(_no_metadata(built.log_dirs[0]))
    directories = [DataDirectory(files, path) for path in built.log_dirs]
    for directory in directories:
        directory.lock()
    try:
        yield directories
    finally:
        for directory in directories:
            directory.unlock()


def _built(data: Path | None, config: Path | None) -> BrokerConfig:
    return build_config(
        file=None if config is None else str(config), data=None if data is None else str(data), port=None, settings=()
    )


def _no_metadata(directory: str) -> str:
    return f"{directory} has no metadata of kafkapy: no broker has started there yet"


def _other_place(places: Places) -> MetadataPlace:
    if (places.zookeeper is None) == (places.file is None):
        raise UsageError("give either --zookeeper HOST:PORT/CHROOT or --file FILE")
    if places.zookeeper is not None:
        return ZooKeeperPlace(places.zookeeper, _built(places.data, places.config))
    return DocumentPlace(places.file or "-")


def _left_out(tree: MetadataTree) -> list[str]:
    """A warning about settings that an export to a ZooKeeper leaves out, if there are any."""
    if not (found := tree.own_keys()):
        return []
    sentence = (
        f"left out, since Apache Kafka does not know them: {', '.join(found)}. If brokers of kafkapy use the "
        "ZooKeeper, set them again when one has started"
    )
    return [sentence]


def _carry(
    tree: MetadataTree,
    target: MetadataPlace,
    directories: checks.Directories,
    data: str,
    options: RunOptions,
    warned_before: Sequence[str] = (),
) -> None:
    """Compare the metadata with the target's, write it unless that is refused, and report the changes."""
    tree.check()
    checks.check_identity(tree, directories, data)
    there = target.read()
    found = changes(tree, there)
    warned = [*warned_before, *checks.warnings(tree, directories), *checks.check_topic_configs(tree)]
    try:
        refuse_overwriting(tree, there, found, str(target), overwrite=options.overwrite)
    except MetadataError as error:
        if not options.dry_run:
            raise
        warned.append(f"this would be refused: {error}")
    if not options.dry_run:
        target.write(tree, found, SystemClock().now_ms())
        left = changes(tree, target.read())
        if left:
            raise MetadataError(
                f"{target} differs from what was written, at {left[0].path}: is another program writing to it?"
            )
    _report(tree, target, found, warned, options)


def _report(
    tree: MetadataTree, target: MetadataPlace, found: Sequence[NodeChange], warned: Sequence[str], options: RunOptions
) -> None:
    counts = {kind: sum(1 for change in found if change.kind == kind) for kind in (NEW, OTHER, GONE)}
    summary = _summary(tree)
    if options.as_json:
        listed = [change._asdict() for change in found]
        done(
            "", as_json=True, target=str(target), dry_run=options.dry_run, summary=summary, changes=listed,
            warnings=list(warned),
        )  # fmt: skip
        return
    show([{"what": what, "is": value} for what, value in summary.items()], as_json=False, title=str(target))
    if options.dry_run and found:
        show([change._asdict() for change in found], as_json=False, title="changes")
    same = len(tree.nodes) - counts[NEW] - counts[OTHER]
    typer.echo(
        f"{'would write' if options.dry_run else 'written'}: {counted(counts[NEW], 'new node')}, "
        f"{counts[OTHER]} changed, {counts[GONE]} removed, {same} unchanged"
    )
    for sentence in warned:
        say(f"kafkapy: warning: {sentence}", to_error=True)


def _summary(tree: MetadataTree) -> dict[str, Any]:
    replicas = tree.replicas()
    block = tree.producer_ids
    configs = {kind: tree.configs(kind) for kind in KINDS}
    return {
        "cluster id": tree.cluster_id,
        "brokers": sorted({broker for each in replicas.values() for broker in each}),
        "topics": len({partition.topic for partition in replicas}),
        "partitions": len(replicas),
        **{f"configured {kind}": len(found) for kind, found in configs.items()},
        "ACLs on resources": sum(path.startswith("/kafka-acl") and path.count("/") > 2 for path in tree.nodes),
        "controller epoch": tree.controller_epoch,
        "last producer id block": "none" if block is None else f"{block.first}-{block.last}",
    }


def _broker_id(tree: MetadataTree, directories: checks.Directories) -> int:
    """The broker's id, by its directory or else by the replicas."""
    if directories.identity is not None and directories.identity.broker_id is not None:
        return directories.identity.broker_id
    return next(iter(tree.replicas().values()), (0,))[0]


def _advice(broker_id: int, target: MetadataPlace, directories: Sequence[DataDirectory], *, is_generated: bool) -> str:
    # Both brokers refuse a broker.id above reserved.broker.max.id, and find a generated one in meta.properties.
    line = (
        f"no broker.id: meta.properties has the generated one, {broker_id}"
        if is_generated
        else f"broker.id={broker_id}"
    )
    return (
        "kafkapy, or Apache Kafka 2.7, starts on it with these settings:\n"
        f"  {line}\n  zookeeper.connect={target}\n"
        f"  log.dirs={','.join(each.path for each in directories)}\n"
        "With one broker set offsets.topic.replication.factor, transaction.state.log.replication.factor and "
        "transaction.state.log.min.isr to 1.\n"
        "Before kafkapy starts on this directory without zookeeper.connect again, run kafkapy metadata import: until "
        "then its own copy is old."
    )
