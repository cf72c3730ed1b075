"""The worker process's part of a recovery, run in this process."""

from dataclasses import asdict
from io import BytesIO
from pathlib import Path

import pytest

from harness.storage.batches import batch
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.worker import JobCancelledError, JobContext, Output
from kafkapy.storage.recovery.recovery_job import LoopLessClock, run
from tests.storage.support import fill, open_log

CONFIG = LogConfig(segment_bytes=2000, cleanup_policy=("compact", "delete"))


def _arguments(directory: Path) -> dict[str, object]:
    log = {
        "topic": "orders", "partition": 0, "directory": str(directory / "orders-0"),
        "config": asdict(CONFIG) | {"cleanup_policy": ["compact", "delete"]}, "checkpointed": [False, 0, 0, 0],
    }  # fmt: skip
    return {"producer_expiration_ms": 1000, "logs": [log]}


def test_a_log_is_recovered_and_every_segment_reported(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2000))
    fill(log, 30)
    log.release()
    with Path(log.segments.active.log.path).open("ab") as file:
        file.write(b"torn")
    stream = BytesIO()
    assert run(_arguments(tmp_path), JobContext(7, Output(stream))) == {"logs": 1}
    told = stream.getvalue().splitlines()
    assert len(told) == len(log.segments)
    size = (30 - log.segments.active.base_offset) * len(batch(value=b"v" * 100))
    assert told[-1] == b'{"id":7,"progress":{"bytes":%d}}' % (size + 4)
    assert open_log(tmp_path, CONFIG).log_end_offset == 30


def test_a_cancelled_job_stops_between_two_segments(tmp_path: Path) -> None:
    fill(open_log(tmp_path), 3)
    context = JobContext(1, Output(BytesIO()))
    context.cancelled.set()
    with pytest.raises(JobCancelledError):
        run(_arguments(tmp_path), context)


def test_the_clock_of_a_worker_process_has_no_timers() -> None:
    ran: list[int] = []
    LoopLessClock().call_later(0, ran.append, 1).cancel()
    assert ran == []
