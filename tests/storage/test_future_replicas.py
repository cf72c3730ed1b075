"""Future replicas in the log manager (KIP-113): their folders, checkpoints, restarts and errors of disks."""

import errno
import logging
from pathlib import Path

import pytest

from harness.storage.batches import PARTITION, START_MS, batch, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import Files, FileSlice
from kafkapy.storage.errors import LogDirNotFoundError
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log_manager import MAX_PREFERENCES, LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.storage.broken_disk import BrokenDisk
from tests.storage.support import crash, fill, offsets_of

FUTURE = f"orders-0.{'0' * 32}-future"


class World:
    """A log manager on the directories a, b and c."""

    def __init__(self, path: Path, config: LogConfig | None = None) -> None:
        self.path = path
        self.config = config or LogConfig()
        self.start()

    def start(self) -> None:
        self.clock = ManualClock(START_MS)
        self.files = BrokenDisk()
        self.logs = LogManager(
            [self.at("a"), self.at("b"), self.at("c")],
            self.config,
            self.clock,
            storage=Storage(self.clock, self.files),
        )
        load_logs(self.logs)

    def at(self, name: str) -> str:
        return str(self.path / name)

    def begin_move(self, name: str = "b") -> Log:
        self.logs.prefer(PARTITION, self.at(name))
        future = self.logs.create_future(PARTITION)
        assert future is not None
        return future

    def copy(self) -> None:
        current, future = self.log, self.future
        while future.log_end_offset < current.log_end_offset:
            records = current.read(future.log_end_offset, 1 << 20).records
            assert isinstance(records, FileSlice)
            future.append_as_follower(records.read())

    @property
    def log(self) -> Log:
        log = self.logs.get(PARTITION)
        assert log is not None
        return log

    @property
    def future(self) -> Log:
        log = self.logs.future(PARTITION)
        assert log is not None
        return log

    def folders(self) -> list[str]:
        """Each partition's folder, with x for the digits of its id."""
        found = []
        for folder in sorted(self.path.glob("?/*-*")):
            if folder.is_dir():
                stem, _, suffix = folder.name.partition(".")
                found.append(f"{folder.parent.name}/{stem}" + (f".x{suffix[32:]}" if suffix else ""))
        return found

    def checkpoint(self, directory: str, name: str) -> list[str]:
        return (self.path / directory / name).read_text().splitlines()[2:]


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    fill(made.logs.get_or_create(PARTITION), 3)
    return made


def test_a_future_replica_replaces_the_current_log(world: World) -> None:
    assert world.logs.directory_of(PARTITION) == world.at("a")
    world.begin_move()
    assert world.folders() == ["a/orders-0", "b/orders-0.x-future"]
    assert world.logs.futures_in(world.at("b")) == [PARTITION]
    assert world.logs.futures_in(world.at("c")) == []
    assert list(world.logs.future_logs()) == [world.future]
    world.copy()
    fetched = world.log.read(1, 1 << 20).records
    old = world.log
    log = world.logs.replace_with_future(PARTITION)
    assert world.log is log
    assert world.logs.future(PARTITION) is None
    assert world.folders() == ["a/orders-0.x-delete", "b/orders-0"]
    assert (log.high_watermark, log.log_end_offset) == (3, 3)
    assert offsets_of(fetched) == offsets_of(old.read(1, 1 << 20).records) == [1, 2]
    fill(log, 2)
    assert offsets_of(log.read(0, 1 << 20).records) == [0, 1, 2, 3, 4]
    world.clock.advance(60_000)
    assert world.folders() == ["b/orders-0"]
    world.logs.shutdown()
    world.start()
    assert (world.log.high_watermark, world.log.log_end_offset) == (5, 5)
    assert world.logs.directory_of(PARTITION) == world.at("b")


def test_segments_indexes_epochs_and_producers_are_found_in_the_new_folder(tmp_path: Path) -> None:
    world = World(tmp_path, LogConfig(segment_bytes=400, index_interval_bytes=0))
    log = world.logs.get_or_create(PARTITION)
    for sequence in range(12):
        log.append_as_leader(produced(sequence, value=b"v" * 60), 4)
    log.update_high_watermark(12)
    world.begin_move()
    world.copy()
    moved = world.logs.replace_with_future(PARTITION)
    assert len(moved.segments) > 3
    moved.append_as_leader(produced(12, value=b"v" * 60), 5)
    for offset in range(13):
        assert offsets_of(moved.read(offset, 1).records) == [offset]
    moved.roll()
    moved.flush()
    found = {path.name for path in (tmp_path / "b" / "orders-0").iterdir()}
    assert {f"{13:020d}.log", f"{13:020d}.snapshot", "leader-epoch-checkpoint"} <= found
    crash(world.logs)
    world.start()
    assert (world.log.log_end_offset, world.log.leader_epochs.latest) == (13, 5)
    assert world.log.producer_state.producers[7].batches[-1].last_sequence == 12


def test_checkpoints_follow_a_move(world: World) -> None:
    world.begin_move()
    world.copy()
    world.log.advance_log_start_offset(1)
    world.log.flush()
    finish(world.logs.checkpoint_recovery_points())
    world.logs.checkpoint_high_watermarks()
    world.logs.checkpoint_log_start_offsets()
    names = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint")
    assert [world.checkpoint("a", name) for name in names] == [["orders 0 3"], ["orders 0 3"], ["orders 0 1"]]
    world.future.update_high_watermark(3)
    world.future.advance_log_start_offset(1)
    world.logs.checkpoint_high_watermarks()
    assert world.checkpoint("b", names[1]) == ["orders 0 3"]
    world.future.flush()
    world.logs.replace_with_future(PARTITION)
    world.clock.advance(1_000)
    for name, offset in zip(names, (3, 3, 1), strict=True):
        assert world.checkpoint("a", name) == []
        assert world.checkpoint("b", name) == [f"orders 0 {offset}"]


@pytest.mark.parametrize("end", ["shutdown", "abandon"])
def test_the_checkpoints_of_a_move_are_not_written_after_a_stop(world: World, end: str) -> None:
    world.begin_move()
    world.copy()
    world.logs.replace_with_future(PARTITION)
    getattr(world.logs, end)()
    before = {path: path.read_bytes() for path in world.path.glob("?/*checkpoint")}
    world.clock.advance(1_000)
    assert {path: path.read_bytes() for path in world.path.glob("?/*checkpoint")} == before


def test_many_moves_share_their_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    partitions = [TopicPartition("t", number) for number in range(6)]
    for partition in partitions:
        fill(world.logs.get_or_create(partition), 1)
        world.logs.prefer(partition, world.at("c" if world.logs.directory_of(partition) == world.at("b") else "b"))
        future = world.logs.create_future(partition)
        assert future is not None
        future.append_as_follower(batch())
        world.logs.replace_with_future(partition)
    written: list[str] = []
    replace = Files.replace

    def noted(files: Files, path: str, data: bytes, *, sync: bool = True) -> None:
        written.append(path)
        replace(files, path, data, sync=sync)

    monkeypatch.setattr(Files, "replace", noted)
    world.clock.advance(1_000)
    checkpoints = [path for path in written if path.endswith("checkpoint")]
    assert len(checkpoints) == len(set(checkpoints))


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_move_goes_on_after_a_restart(world: World, is_clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    world.begin_move()
    world.copy()
    fill(world.log, 2)
    if is_clean:
        world.logs.shutdown()
    else:
        crash(world.logs)
    caplog.set_level(logging.INFO)
    world.start()
    assert "orders-0 is being moved to" in caplog.text
    assert "is missing" not in caplog.text
    assert (world.future.log_end_offset, world.log.log_end_offset) == (3, 5)
    world.copy()
    world.logs.replace_with_future(PARTITION)
    assert world.folders() == ["a/orders-0.x-delete", "b/orders-0"]


def test_a_kill_releases_future_replicas_too(world: World) -> None:
    world.begin_move()
    world.copy()
    world.logs.abandon()
    world.start()
    assert world.future.log_end_offset == 3


def test_records_of_the_future_replica_that_a_crash_has_torn_are_dropped(world: World) -> None:
    future = world.begin_move()
    world.copy()
    crash(world.logs)
    path = Path(future.directory) / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    world.start()
    assert (world.future.log_end_offset, world.log.log_end_offset) == (2, 3)


def test_a_second_copy_and_a_copy_beside_the_current_log_are_removed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.logs.shutdown()
    for name in "abc":
        (world.path / name / FUTURE).mkdir()
    world.start()
    assert world.logs.futures_in(world.at("b")) == [PARTITION]
    assert caplog.text.count("there is a better copy of orders-0") == 2
    world.clock.advance(60_000)
    assert world.folders() == ["a/orders-0", "b/orders-0.x-future"]


def test_a_new_directory_ends_a_move(world: World) -> None:
    assert not world.logs.is_moving_elsewhere(PARTITION, world.at("b"))
    world.begin_move()
    assert not world.logs.is_moving_elsewhere(PARTITION, world.at("b"))
    assert world.logs.is_moving_elsewhere(PARTITION, world.at("c"))
    assert world.logs.is_moving_elsewhere(PARTITION, world.at("a"))
    assert world.logs.discard_future(PARTITION)
    assert not world.logs.discard_future(PARTITION)
    assert world.folders() == ["a/orders-0", "b/orders-0.x-delete"]
    world.begin_move("c")
    world.clock.advance(60_000)
    assert world.folders() == ["a/orders-0", "c/orders-0.x-future"]


def test_there_is_no_future_replica_without_another_directory(world: World) -> None:
    assert world.logs.create_future(PARTITION) is None
    world.logs.prefer(PARTITION, world.at("a"))
    assert world.logs.create_future(PARTITION) is None
    world.begin_move()
    world.logs.prefer(PARTITION, world.at("b"))
    assert world.logs.create_future(PARTITION) is None
    unknown = TopicPartition("unknown", 0)
    world.logs.prefer(unknown, world.at("b"))
    assert world.logs.create_future(unknown) is None


@pytest.mark.parametrize("path", ["", "a", "/", "/nowhere", "{a}/", "{a}/../a", "{a}/x", "{a}\0", "/etc"])
def test_a_directory_is_known_by_its_own_path_only(world: World, path: str) -> None:
    with pytest.raises(LogDirNotFoundError, match=r"is none of log.dirs"):
        world.logs.prefer(PARTITION, path.replace("{a}", world.at("a")))


def test_relative_directories_have_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    logs = LogManager(["a", "./b/"], LogConfig(), ManualClock())
    load_logs(logs)
    assert [each.absolute_path for each in logs.directories] == [f"{tmp_path}/a", f"{tmp_path}/./b"]
    logs.prefer(PARTITION, f"{tmp_path}/./b")
    logs.get_or_create(PARTITION)
    assert logs.directory_of(PARTITION) == "./b"


def test_a_new_log_is_created_in_its_preferred_directory(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.logs.prefer(PARTITION, world.at("b"))
    world.logs.prefer(PARTITION, world.at("c"))
    world.logs.get_or_create(PARTITION)
    assert world.folders() == ["c/orders-0"]
    world.logs.delete(PARTITION)
    world.logs.get_or_create(PARTITION)
    assert world.logs.directory_of(PARTITION) == world.at("a")


def test_to_prefer_the_present_directory_ends_an_unused_preference(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.logs.get_or_create(PARTITION)
    world.logs.prefer(PARTITION, world.at("b"))
    world.logs.prefer(PARTITION, world.at("a"))
    assert world.logs.create_future(PARTITION) is None


def test_the_oldest_preference_is_forgotten_when_they_are_too_many(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(MAX_PREFERENCES + 1):
        world.logs.prefer(TopicPartition("t", number), world.at("c"))
    world.logs.get_or_create(TopicPartition("t", 0))
    world.logs.get_or_create(TopicPartition("t", 1))
    assert world.folders() == ["a/t-0", "c/t-1"]


def test_a_log_that_is_missing_is_not_created_beside_its_copy(tmp_path: Path) -> None:
    (tmp_path / "a" / FUTURE).mkdir(parents=True)
    world = World(tmp_path)
    world.logs.get_or_create(PARTITION)
    assert world.folders() == ["a/orders-0.x-future", "b/orders-0"]


def test_a_copy_leaves_the_only_directory_to_a_log_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / FUTURE).mkdir()
    logs = LogManager([str(tmp_path)], LogConfig(), ManualClock())
    load_logs(logs)
    logs.get_or_create(PARTITION)
    assert logs.future(PARTITION) is None
    assert (tmp_path / "orders-0").exists()


def test_a_deleted_partition_takes_its_copy_along(world: World) -> None:
    world.begin_move()
    assert world.logs.delete(PARTITION)
    assert world.folders() == ["a/orders-0.x-delete", "b/orders-0.x-delete"]
    world.clock.advance(60_000)
    assert world.folders() == []


def test_a_copy_without_a_log_can_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "a" / FUTURE).mkdir(parents=True)
    world = World(tmp_path)
    assert world.logs.delete(PARTITION)
    assert world.folders() == ["a/orders-0.x-delete"]


def test_nothing_is_deleted_by_age_while_a_partition_is_moved(tmp_path: Path) -> None:
    world = World(tmp_path, LogConfig(segment_bytes=400, retention_ms=1))
    fill(world.logs.get_or_create(PARTITION), 10)
    world.begin_move()
    world.copy()
    world.clock.advance(10_000)
    finish(world.logs.enforce_retention())
    assert (world.log.log_start_offset, world.future.log_start_offset) == (0, 0)
    world.logs.replace_with_future(PARTITION)
    world.log.update_high_watermark(10)
    finish(world.logs.enforce_retention())
    assert world.log.log_start_offset == 10


def test_segments_that_the_copy_has_dropped_are_removed(tmp_path: Path) -> None:
    world = World(tmp_path, LogConfig(segment_bytes=400))
    fill(world.logs.get_or_create(PARTITION), 10)
    world.begin_move()
    world.copy()
    world.future.truncate_to(1)
    assert list((tmp_path / "b").glob("*/*.deleted"))
    world.copy()
    world.logs.replace_with_future(PARTITION)
    assert not list((tmp_path / "b").glob("*/*.deleted"))


def test_timed_work_reaches_the_copy(tmp_path: Path) -> None:
    world = World(tmp_path, LogConfig(flush_ms=5))
    fill(world.logs.get_or_create(PARTITION), 3)
    world.begin_move()
    world.copy()
    world.clock.advance(10)
    world.logs.flush_due_logs()
    assert world.future.recovery_point == 3


def test_a_running_flush_is_repeated_after_the_folder_was_renamed(world: World) -> None:
    future = world.begin_move()
    world.copy()
    future.roll()
    fill(world.log, 1)
    world.copy()
    path = Path(future.directory).with_name("orders-0")
    future.rename_directory(str(path))
    future.flush()
    assert future.recovery_point == 4
    assert {each.name for each in path.iterdir()} >= {f"{3:020d}.snapshot"} or not future.producer_state.producers
    assert future.leader_epochs.path == f"{path}/leader-epoch-checkpoint"


# errors of the disk


def test_no_move_begins_while_a_directory_is_offline(world: World) -> None:
    world.logs.fail(next(each for each in world.logs.directories if each.path == world.at("c")), OSError(5, "gone"))
    with pytest.raises(KafkaStorageError, match="while a data directory is offline"):
        world.begin_move()
    with pytest.raises(KafkaStorageError, match="is offline"):
        world.logs.prefer(PARTITION, world.at("c"))


def test_a_preferred_directory_that_fails_is_not_replaced_by_another(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.logs.prefer(PARTITION, world.at("c"))
    world.logs.fail(next(each for each in world.logs.directories if each.path == world.at("c")), OSError(5, "gone"))
    with pytest.raises(KafkaStorageError):
        world.logs.get_or_create(PARTITION)


def test_a_copy_ends_when_its_directory_fails(world: World, caplog: pytest.LogCaptureFixture) -> None:
    lost: list[tuple[str, list[TopicPartition]]] = []
    world.logs.set_directory_listener(lambda path, partitions: lost.append((path, list(partitions))))
    future = world.begin_move()
    world.files.broken = world.at("b")
    with pytest.raises(KafkaStorageError):
        future.append_as_leader(batch(), 0)
    world.clock.advance(0)
    assert world.logs.future(PARTITION) is None
    assert lost == [(world.at("b"), [])]
    assert "The copies of 1 partitions to" in caplog.text
    fill(world.log, 1)


def test_a_copy_stays_when_the_current_directory_fails(world: World) -> None:
    world.begin_move()
    world.files.broken = world.at("a")
    with pytest.raises(KafkaStorageError):
        fill(world.log, 1)
    world.clock.advance(0)
    assert world.logs.get(PARTITION) is None
    assert world.logs.future(PARTITION) is not None


def test_a_copy_that_cannot_be_created(world: World) -> None:
    world.files.broken = world.at("b")
    world.files.number = errno.ENOSPC
    with pytest.raises(KafkaStorageError):
        world.begin_move()
    assert world.logs.future(PARTITION) is None
    world.files.broken = "nothing"
    world.begin_move()


def test_a_copy_whose_folder_cannot_be_renamed_is_found_by_the_next_start(world: World) -> None:
    world.begin_move()
    world.files.broken, world.files.number = world.at("b"), errno.ENOSPC
    assert world.logs.discard_future(PARTITION)
    assert world.folders() == ["a/orders-0", "b/orders-0.x-future"]
    world.files.broken = "nothing"
    world.logs.shutdown()
    world.start()
    assert world.logs.future(PARTITION) is not None


@pytest.mark.parametrize("broken", ["a", "b"])
def test_nothing_changes_if_a_folder_cannot_be_renamed(world: World, broken: str) -> None:
    world.begin_move()
    world.copy()
    before, old = world.folders(), world.log
    world.files.broken, world.files.number = world.at(broken), errno.ENOSPC
    with pytest.raises(KafkaStorageError):
        world.logs.replace_with_future(PARTITION)
    world.files.broken = "nothing"
    assert world.folders() == before
    assert world.log is old
    fill(old, 1)
    world.copy()
    world.logs.replace_with_future(PARTITION)
    assert offsets_of(world.log.read(0, 1 << 20).records) == [0, 1, 2, 3]


def test_names_that_cannot_be_synced_take_their_directory_offline(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin_move()
    world.copy()
    sync = Files.sync_path

    def broken(files: Files, path: str) -> None:
        if path == world.at("a"):
            raise OSError(errno.EIO, "broken", path)
        sync(files, path)

    monkeypatch.setattr(Files, "sync_path", broken)
    world.logs.replace_with_future(PARTITION)
    world.clock.advance(0)
    assert [each.path for each in world.logs.directories.offline] == [world.at("a")]
    assert world.logs.get(PARTITION) is not None
