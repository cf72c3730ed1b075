"""The server that answers fetches with nothing but sendfile says what the client reads."""

import socket
from pathlib import Path
from threading import Thread

from bench.clients.long_log import RECORDS_OF_A_BATCH, read
from bench.floors.long_log import Segments, serve
from kafkapy.records.record import Record, encode_batch


def test_a_log_of_two_segments_is_read_to_its_end(tmp_path: Path) -> None:
    records = [Record(None, bytes(1000), timestamp=1)] * RECORDS_OF_A_BATCH
    for first in (0, 20):
        batches = [encode_batch(records, base_offset=(first + n) * RECORDS_OF_A_BATCH) for n in range(20)]
        (tmp_path / f"{first * RECORDS_OF_A_BATCH:020d}.log").write_bytes(b"".join(map(bytes, batches)))
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours, theirs = socket.create_connection(server.getsockname()), server.accept()[0]
    server_end = Thread(target=serve, args=(theirs, Segments(sorted(tmp_path.glob("*.log"))), "long"))
    server_end.start()
    with ours:
        answer = read(ours, "long", 40)
    server_end.join()
    theirs.close()
    assert answer["bytes"] == sum(path.stat().st_size for path in tmp_path.glob("*.log"))
