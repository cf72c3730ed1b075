"""A file system without a free byte, and a broker that is killed on it: kafkapy starts, serves, trims and writes again.

Of kafkapy alone: Apache Kafka 2.7.2 takes the data directory offline at the first write that is refused, which with
one directory ends the broker, and can't start before somebody else has freed space. The file system is a small tmpfs,
and an ext4 image on a loop device; where neither may be mounted the tests are skipped.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.data_path.frames import batch, fetch, list_offsets, new_topic, produce
from compat_tests.groups.wire import Wire, answer_to_creation
from harness.kafkapy_process import KafkapyProcess
from harness.process import wait_for
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

MEGABYTE = 1 << 20
TIMEOUT_S = 30
STORAGE_ERROR = 56
FREED_BYTES = 300_000
"""Fewer than three segments have, which is enough for a clean stop."""
CONFIG = {"log.retention.check.interval.ms": "500", "log.segment.delete.delay.ms": "500"}


def run(*command: str) -> None:
    """Skips the test, with the system's error text, if the system refuses."""
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S, text=True)
    except FileNotFoundError as error:
        pytest.skip(f"no file system can be made: {error}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no file system can be mounted: {' '.join(command)}: {error.stderr.strip()}")


def mount_tmpfs(target: Path, _image: Path) -> None:
    run("mount", "-t", "tmpfs", "-o", f"size={16 * MEGABYTE}", "tmpfs", str(target))


def mount_ext4(target: Path, image: Path) -> None:
    with image.open("wb") as file:
        file.truncate(24 * MEGABYTE)
    run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
    run("mount", "-o", "loop", str(image), str(target))


@pytest.fixture(params=[mount_tmpfs, mount_ext4])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    target = tmp_path / "disk"
    target.mkdir()
    mount: Callable[[Path, Path], None] = request.param
    mount(target, tmp_path / "image")
    try:
        yield target
    finally:
        subprocess.run(["umount", str(target)], check=True, timeout=TIMEOUT_S)


@pytest.fixture
def kafkapy(disk: Path, tmp_path: Path) -> Iterator[KafkapyProcess]:
    process = KafkapyProcess(config=CONFIG, directory=tmp_path / "process")
    process.data = disk / "data"
    try:
        yield process
    finally:
        process.kill()
        process.close()


def fill_up(disk: Path) -> None:
    """Fill the free space of the file system."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def produce_until_refused(wire: Wire, topic: str, size: int) -> int:
    """The number of records that are acknowledged before the first one that is not."""
    count = 0
    while (answer := produce(wire, topic, batch(os.urandom(size))))[0] == 0:
        count += 1
    assert answer == (STORAGE_ERROR, -1)
    return count


def delete_records(wire: Wire, topic: str, offset: int) -> int:
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    answer = wire.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=5000), 1)
    return int(answer.topics[0].partitions[0].error_code)


def read_all(wire: Wire, topic: str, start: int, end: int) -> bytes:
    """The batches from ``start`` on; every offset up to ``end`` is there."""
    content = b""
    offset = start
    while offset < end:
        found = fetch(wire, topic, offset)
        assert found.error_code == 0
        records = bytes(found.records)
        content += records
        position = 0
        while position < len(records):
            assert int.from_bytes(records[position : position + 8]) == offset
            offset += 1
            position += 12 + int.from_bytes(records[position + 8 : position + 12])
    return content


def until_accepted(wire: Wire, topic: str) -> int:
    """The offset of a record that is taken once there is space again."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while (answer := produce(wire, topic, batch(b"again" * 1000)))[0] != 0:
        assert answer == (STORAGE_ERROR, -1)
        assert time.monotonic() < deadline_s
        wire.has_answer(0.1)
    return answer[1]


def test_start_after_a_kill(disk: Path, kafkapy: KafkapyProcess) -> None:
    kafkapy.start()
    with Wire(kafkapy.bootstrap) as wire:
        topic, other = new_topic(wire, segment__bytes="100000"), new_topic(wire)
        ends = {each: produce_until_refused(wire, each, size) for each, size in ((topic, 20_000), (other, 20))}
        before = {each: read_all(wire, each, 0, end) for each, end in ends.items()}
    kafkapy.kill()
    fill_up(disk)
    for _ in range(3):  # each start continues with the files of the one before
        kafkapy.start()
        with Wire(kafkapy.bootstrap) as wire:
            for each, end in ends.items():
                assert list_offsets(wire, each, -1).offset == end
                assert read_all(wire, each, 0, end) == before[each]
                assert produce(wire, each, batch(os.urandom(20_000))) == (STORAGE_ERROR, -1)
        kafkapy.kill()
    kafkapy.start()
    end = ends[topic]
    with Wire(kafkapy.bootstrap) as wire:
        assert delete_records(wire, topic, end - 5) == 0
        assert until_accepted(wire, topic) == end
        assert until_accepted(wire, other) == ends[other]
        new = CreatableTopic("new", num_partitions=1, replication_factor=1)
        assert wait_for(lambda: answer_to_creation(wire, new) == 0, TIMEOUT_S)  # when the reserve is whole again
        assert wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 2).error_code == 0
        after = read_all(wire, topic, end - 5, end + 1)
        batch_size = len(before[topic]) // end
        assert after.startswith(before[topic][-5 * batch_size :])
        assert wait_for(lambda: shutil.disk_usage(disk).free > FREED_BYTES, TIMEOUT_S)  # the segments were removed
    kafkapy.stop()
    assert (disk / "data" / ".kafka_cleanshutdown").exists()
    kafkapy.start()
    with Wire(kafkapy.bootstrap) as wire:
        assert read_all(wire, topic, end - 5, end + 1) == after
        assert list_offsets(wire, topic, -2).offset == end - 5


def test_retention_frees_space(disk: Path, kafkapy: KafkapyProcess) -> None:
    kafkapy.start()
    with Wire(kafkapy.bootstrap) as wire:
        topic = new_topic(wire, segment__bytes="100000")
        end = produce_until_refused(wire, topic, 20_000)
    kafkapy.kill()
    fill_up(disk)
    kafkapy.overrides["log.retention.bytes"] = str(MEGABYTE)
    kafkapy.start()
    with Wire(kafkapy.bootstrap) as wire:
        assert until_accepted(wire, topic) == end
        assert wait_for(lambda: list_offsets(wire, topic, -2).offset > 0, TIMEOUT_S)


def shorten_retention(wire: Wire, topic: str) -> int:
    """The code of the answer."""
    alteration = AlterConfigsResource(2, topic, [AlterableConfig("retention.ms", 0, "1")])
    return int(wire.ask(IncrementalAlterConfigsRequest([alteration]), 0).responses[0].error_code)


@pytest.mark.parametrize("frees", ["deletion", "retention"])
def test_every_request_is_answered_and_some_free_space(disk: Path, kafkapy: KafkapyProcess, frees: str) -> None:
    kafkapy.start()
    with Wire(kafkapy.bootstrap) as wire:
        large, other = new_topic(wire, segment__bytes="100000"), new_topic(wire)
        produce_until_refused(wire, large, 20_000)
        end = produce_until_refused(wire, other, 20)
        fill_up(disk)
        creation = CreateTopicsRequest([CreatableTopic("new", 1, 1)], timeout_ms=3000)
        assert wire.ask(creation, 5).topics[0].error_code in (0, 7)  # in the metadata; is there space for a log?
        assert wire.ask(CreateTopicsRequest([CreatableTopic("newer", 1, 1)]), 5).topics[0].error_code == STORAGE_ERROR
        assert wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 2).error_code == 0
        assert wire.ask(FindCoordinatorRequest("group"), 1).error_code in (0, 15)
        asked = MetadataRequest([MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
        assert wire.ask(asked, 4).topics[0].error_code == 5
        end += produce_until_refused(wire, other, 5000)  # the metadata's reserve may have freed a little
        if frees == "deletion":
            deletion = DeleteTopicsRequest(topic_names=[large], timeout_ms=10_000)
            assert wire.ask(deletion, 3).responses[0].error_code == 0
        else:
            assert shorten_retention(wire, large) == 0
        assert until_accepted(wire, other) == end
    kafkapy.kill()
    kafkapy.start()
    with Wire(kafkapy.bootstrap) as wire:
        assert list_offsets(wire, other, -1).offset == end + 1
