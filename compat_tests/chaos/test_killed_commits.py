"""A broker that is killed while groups commit: acknowledged commits are kept, and members continue at them."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat_tests.chaos.commits import Commits
from compat_tests.clients.client import wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from harness.kafkapy_process import KafkapyProcess
from kafkapy.records.batch import iterate_headers

GROUPS, ROUNDS, PARTITIONS = 4, 4, 2


@pytest.fixture
def own(tmp_path: Path) -> Iterator[KafkapyProcess]:
    """A broker that may be killed; its offsets' logs are rolled and compacted all the time."""
    config = {
        "log.cleaner.min.cleanable.ratio": "0.01",
        "offsets.topic.segment.bytes": "20000",
        "log.cleaner.backoff.ms": "100",
        "offsets.topic.num.partitions": "2",
    }
    with KafkapyProcess(directory=tmp_path / "broker", config=config) as process:
        yield process


def test_acknowledged_commits_survive_kills(own: KafkapyProcess) -> None:
    client = ConfluentClient(own.bootstrap)
    client.create_topic("t", PARTITIONS)
    member = client.join("members", "t")
    wait_until(lambda: member.assignment == {0, 1}, "both partitions")
    with ExitStack() as stack:
        loads = [
            stack.enter_context(Commits(own.bootstrap, f"g{number}", "t", number % PARTITIONS))
            for number in range(GROUPS)
        ]
        for _ in range(ROUNDS):
            for load in loads:
                load.wait_for_more(100)
            own.kill()
            own.start()
            for load in loads:
                check(client, load)
    own.kill()
    own.start()
    for load in loads:
        check(client, load)
    enough = sum(load.count for load in loads) / 2
    wait_until(lambda: records_kept(own.data) < enough, "compaction, for which a crowded machine has little time")
    assert client.describe_group("members").members == 1
    assert member.assignment == {0, 1}
    member.close()
    assert "Traceback" not in own.log_tail(1000)


def check(client: ConfluentClient, load: Commits) -> None:
    """No acknowledged commit is lost, and every commit in the log was sent."""
    known = load.acknowledged
    found = client.committed(load.group, load.topic, load.partition)
    assert found is not None
    assert known <= found <= load.sent


def records_kept(data: Path) -> int:
    """The number of records in the logs of offsets after compaction; very many while it replaces a file."""
    try:
        contents = [path.read_bytes() for path in data.glob("__consumer_offsets-*/*.log")]
    except FileNotFoundError:
        return sys.maxsize
    return sum(header.record_count for content in contents for _, header in iterate_headers(content))
