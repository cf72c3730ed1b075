"""A process without free descriptors: clients hold all that they can get, and every request is still answered."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat_tests.data_path.frames import batch, new_topic, produce
from compat_tests.groups.wire import Wire
from harness.kafkapy_process import KafkapyProcess
from harness.process import wait_for
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

LIMIT = 200


class Limited(KafkapyProcess):
    """A broker with few descriptors."""

    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh", *super().command()]


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    with Limited(directory=tmp_path / "process", config={"offsets.topic.num.partitions": "2"}) as process:
        yield process


def test_every_request_is_answered_while_clients_hold_the_descriptors(limited: Limited) -> None:
    host, _, port = limited.bootstrap.rpartition(":")
    with ExitStack() as stack, Wire(limited.bootstrap) as wire:
        topic = new_topic(wire)
        for _ in range(LIMIT):
            stack.enter_context(socket.create_connection((host, int(port))))
        assert wait_for(lambda: "the last descriptors are kept for files" in limited.log_tail(1000), 10)
        created = wire.ask(CreateTopicsRequest([CreatableTopic("new", 3, 1)], timeout_ms=3000), 5).topics[0]
        assert (created.error_code, created.num_partitions) == (0, 3)
        assert produce(wire, "new", batch(b"x"))[0] == 0
        assert wire.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=3000), 3).responses[0].error_code == 0
        assert wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 2).error_code == 0
        assert wire.ask(FindCoordinatorRequest("group"), 1).error_code in (0, 15)
        asked = MetadataRequest([MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
        assert wire.ask(asked, 4).topics[0].error_code in (0, 5)
    assert "Traceback" not in limited.log_tail(1000)
