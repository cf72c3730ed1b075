"""Sending files without a broker, and reading what a broker answers without its codec."""

from pathlib import Path

import pytest

from bench.clients.long_log import BATCH, FETCH_SIZE, FETCH_VERSION, OFFSET, OVERHEAD, fetch_frame, records_of
from bench.loads.long_log import sendfile_alone
from kafkapy.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkapy.protocol.primitives import Reader, Writer
from kafkapy.records.record import Record, encode_batch


@pytest.mark.parametrize("asked", [False, True])
def test_all_bytes_of_the_files_are_sent(tmp_path: Path, *, asked: bool) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, size in zip(paths, (FETCH_SIZE + 5, 3), strict=True):
        path.write_bytes(bytes(size))
    alone = sendfile_alone(paths, asked=asked)
    assert alone.wall_s > 0
    assert alone.processor_s < alone.wall_s + 1


def test_the_offset_in_the_ready_made_request_can_be_changed() -> None:
    request, place = fetch_frame("topic")
    OFFSET.pack_into(request, place, 4711)
    header_size = 4 + 2 + 2 + 4 + 2 + len("bench")
    read = FetchRequest.read(Reader(memoryview(request)[header_size:]), FETCH_VERSION)
    assert read.topics[0].partitions[0].fetch_offset == 4711


def test_records_and_errors_are_where_the_codec_puts_them() -> None:
    content = encode_batch([Record(None, b"v", timestamp=1)] * 3, base_offset=7)
    for error, records in ((0, content), (6, None)):
        writer = Writer()
        partition = PartitionData(0, error, 9, 9, 0, records=records)
        FetchResponse(responses=[FetchableTopicResponse("topic", partitions=[partition])]).write(writer, FETCH_VERSION)
        answer = memoryview(bytes(writer.getvalue()))
        if error:
            with pytest.raises(SystemExit, match="error 6"):
                records_of(answer, "topic")
        else:
            assert bytes(records_of(answer, "topic")) == content
            assert BATCH.unpack_from(content) == (7, len(content) - OVERHEAD, 2)
