from typing import cast

import pytest

from harness.client import batch
from kafkapy.network.errors import RefusedError
from kafkapy.network.session import Session
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest
from kafkapy.records.record import Record, encode_legacy
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.handlers.produce import _Appends
from kafkapy.types import TopicPartition

MESSAGE = encode_legacy([Record(b"k", b"v", 5, (), 0)], 1)
PLAIN = batch(b"a")
TRANSACTIONAL = batch(b"a", is_transactional=True)


def examined(*records: bytes | None, version: int = 8) -> _Appends:
    context = RequestContext(cast("Services", None), RequestHeader(ApiKey.PRODUCE, version, 0), Session.local(""))
    appends = _Appends(context, ProduceRequest(None, 1, 1000))
    for index, each in enumerate(records):
        data = PartitionProduceData(index, None if each is None else memoryview(each))
        appends.examine(TopicPartition("t", index), data)
    return appends


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
    appends = examined(*records)
    assert (appends.all_plain, appends.refusal is not None) == expected


@pytest.mark.parametrize("records", [None, b"", PLAIN[:40], MESSAGE[:30], bytes(40), PLAIN[:16] + b"\x09" + PLAIN[17:]])
def test_records_without_a_whole_batch_are_refused(records: bytes | None) -> None:
    with pytest.raises(RefusedError, match="t-1"):
        examined(PLAIN, records, version=2)
    assert not examined(PLAIN, records, version=3).all_plain
