"""Kafka's own topics, from real records (``tests/golden``)."""

from collections.abc import Iterator

import pytest

from harness.storage.batches import GOLDEN
from kafkapy.cli.log_decoders import decoder, plain
from kafkapy.platform.files import Files
from kafkapy.records.record import Record, read_records
from kafkapy.storage.inspection.log_scan import LogScan


def _records(topic: str) -> Iterator[Record]:
    for path in sorted(GOLDEN.glob(f"{topic}-*/*.log")):
        for scanned in LogScan(Files(), str(path)):
            if not scanned.header.is_control:
                yield from read_records(scanned.content or b"", scanned.header)


def test_offsets_and_groups() -> None:
    decode = decoder("auto", f"{GOLDEN}/__consumer_offsets-0/00000000000000000000.log")
    decoded = [decode(record) for record in _records("__consumer_offsets")]
    assert all(isinstance(key, dict) for key, _ in decoded)
    offset = next(value for key, value in decoded if key == {"group": "g-static", "partition": "cmp-0"})
    assert (offset["offset"], offset["leader_epoch"], offset["metadata"]) == (60, 3, "")
    group = next(value for key, value in decoded if key == {"group": "g-static"} and value)
    assert (group["protocol_type"], group["generation"], len(group["members"])) == ("consumer", 1, 1)
    assert decode(Record(next(_records("__consumer_offsets")).key, None))[1] is None


def test_transactions() -> None:
    decode = decoder("auto", f"{GOLDEN}/__transaction_state-0")
    decoded = [decode(record) for record in _records("__transaction_state")]
    states = [value["state"] for key, value in decoded if key == {"transactional_id": "tx-1"}]
    assert states[:5] == ["Empty", "Ongoing", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert any(value["partitions"] == ["rf3-0"] for _, value in decoded)
    assert decode(Record(next(_records("__transaction_state")).key, None))[1] is None


@pytest.mark.parametrize("name", ["offsets", "transactions"])
def test_records_that_can_not_be_decoded_are_shown_undecoded(name: str) -> None:
    decode = decoder(name, "f")
    for record in (
        Record(None, b"v"),
        Record(b"\0", b"v"),
        Record(b"\x00\x01\xff", b"v"),
        Record(b"\x00\x63key", None),
    ):
        assert decode(record) == (record.key, record.value)


@pytest.mark.parametrize(("name", "path"), [("auto", "/d/flights-0/f.log"), ("auto", "/d/__other-0"), ("none", "x")])
def test_other_topics_are_plain(name: str, path: str) -> None:
    assert decoder(name, path) is plain
    assert decoder("offsets", path) is not plain
