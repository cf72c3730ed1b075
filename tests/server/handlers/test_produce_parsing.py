import pytest

from kafkapy.network.errors import RefusedError
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.records.record import Record, encode_legacy
from kafkapy.server.handlers.produce import examine
from kafkapy.turns import finish
from tests.server.harness import batch

MESSAGE = encode_legacy([Record(b"k", b"v", 5, (), 0)], 1)
PLAIN = batch(b"a")
TRANSACTIONAL = batch(b"a", is_transactional=True)


def request(*records: bytes | None) -> ProduceRequest:
    partitions = [
        PartitionProduceData(at, None if each is None else memoryview(each)) for at, each in enumerate(records)
    ]
    return ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=partitions)])


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((PLAIN, PLAIN), (True, False)),
        ((PLAIN, MESSAGE), (False, False)),
        ((PLAIN + PLAIN,), (False, False)),
        ((PLAIN, TRANSACTIONAL), (True, True)),
        ((TRANSACTIONAL + b"tail",), (False, True)),
        ((MESSAGE + TRANSACTIONAL,), (False, False)),
    ],
)
def test_examine_tells_plain_and_transactional_batches(records: tuple[bytes, ...], expected: tuple[bool, bool]) -> None:
    assert finish(examine(request(*records)))[1:] == expected


@pytest.mark.parametrize("records", [None, b"", PLAIN[:40], MESSAGE[:30], bytes(40), PLAIN[:16] + b"\x09" + PLAIN[17:]])
def test_records_without_a_whole_batch_are_refused(records: bytes | None) -> None:
    with pytest.raises(RefusedError, match="t-1"):
        finish(examine(request(PLAIN, records)))
