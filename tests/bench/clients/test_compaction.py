"""The records that are written for compaction."""

from bench.clients.compaction import KEYS_OF_A_BATCH, batches, frames
from kafkapy.records.batch import read_header
from kafkapy.records.record import read_records


def test_each_key_is_once_in_a_cycle() -> None:
    contents = batches(3)
    keys = [record.key for content in contents for record in read_records(content, read_header(content))]
    assert len(keys) == len(set(keys)) == 3 * KEYS_OF_A_BATCH
    assert batches(3)[0][61:] == contents[0][61:], "the same ones every time"


def test_every_cycle_brings_every_batch() -> None:
    contents = batches(2)
    requests = list(frames("topic", contents, 2))
    assert len(requests) == 4
    assert [contents[place % 2] in request for place, request in enumerate(requests)] == [True] * 4
