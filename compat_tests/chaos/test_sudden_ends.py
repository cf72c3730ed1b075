"""Brokers that are killed, stopped, or run out of disk under an idempotent producer: no record is lost or doubled.

The tests end the broker, so each starts its own kafkapy, independent of `--target`.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.chaos.load import PARTITIONS, Load
from harness.kafkapy_process import KafkapyProcess

SETTINGS = {"log.segment.bytes": "200000", "replica.high.watermark.checkpoint.interval.ms": "100"}
ROUNDS = 4


@pytest.fixture
def own(tmp_path: Path) -> Iterator[KafkapyProcess]:
    """A broker that may be killed."""
    with KafkapyProcess(directory=tmp_path / "broker", config=SETTINGS) as process:
        yield process


def create_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(10)


def test_a_repeatedly_killed_broker_loses_nothing(own: KafkapyProcess) -> None:
    create_topic(own.bootstrap, "t")
    with Load(own.bootstrap, "t") as load:
        for _ in range(ROUNDS):
            load.wait_for_more(1000)
            own.kill()
            own.start()
        load.finish()
    load.check()
    assert "Traceback" not in own.log_tail(1000)


def test_a_repeatedly_stopped_broker_loses_nothing(own: KafkapyProcess) -> None:
    create_topic(own.bootstrap, "t")
    with Load(own.bootstrap, "t") as load:
        for _ in range(ROUNDS):
            load.wait_for_more(1000)
            assert own.stop() == 0
            assert (own.data / ".kafka_cleanshutdown").exists()
            own.start()
        load.finish()
    load.check()
    assert "Traceback" not in own.log_tail(1000)


def test_topics_are_created_and_deleted_between_kills(own: KafkapyProcess) -> None:
    create_topic(own.bootstrap, "t")
    admin = AdminClient({"bootstrap.servers": own.bootstrap})
    with Load(own.bootstrap, "t") as load:
        for number in range(ROUNDS):
            name = f"passing-{number}"
            create_topic(own.bootstrap, name)
            with Load(own.bootstrap, name) as passing:
                passing.wait_for_more(200)
                admin.delete_topics([name])[name].result(10)
                load.wait_for_more(200)
        load.finish()
    load.check()
    assert "Traceback" not in own.log_tail(1000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB: several times the records of a test."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", path], check=False)
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted in this container")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


@pytest.mark.parametrize("end", [None, signal.SIGKILL], ids=["goes on", "is killed"])
def test_a_full_disk_loses_no_acknowledged_record(small_disk: Path, end: signal.Signals | None) -> None:
    ballast = small_disk / "ballast"
    with KafkapyProcess(directory=small_disk / "broker", config=SETTINGS) as own:
        create_topic(own.bootstrap, "t")
        with Load(own.bootstrap, "t") as load:
            load.wait_for_more(1000)
            with ballast.open("wb", buffering=0) as file:
                while written := _write(file.fileno()):
                    assert written > 0
            while "KAFKA_STORAGE_ERROR" not in own.log_tail(1000):
                assert not load.failures
            if end is not None:
                own.kill()
            ballast.unlink()
            if end is not None:
                own.start()
            load.wait_for_more(1000)
            load.finish()
        load.check()
        assert own.stop() == 0
        assert "Traceback" not in own.log_tail(1000)


def _write(descriptor: int) -> int:
    """Fill the free space; returns 0 if there is none."""
    try:
        return os.write(descriptor, bytes(65_536))
    except OSError:
        return 0
