"""The worker's code, in this process; ``test_worker_pool`` runs it as a process."""

import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkapy.platform import worker
from kafkapy.platform.worker import Inbox, JobCancelledError, JobContext, Output, serve
from kafkapy.platform.worker_pool import PACKAGE_ROOT

JOB = "tests.platform.worker_jobs"


def _lines(*messages: dict[str, Any]) -> io.BytesIO:
    return io.BytesIO(b"".join(json.dumps(message).encode() + b"\n" for message in messages))


def _answers(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The worker's answers to these messages, which are read before the first job runs."""
    stream = io.BytesIO()
    inbox = Inbox(Output(stream))
    inbox.read(_lines(*messages))
    inbox.work()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_job_sends_its_progress_and_its_result() -> None:
    said = [{"at": 1}, {"at": 2}]
    answers = _answers({"id": 4, "job": JOB, "arguments": {"say": said, "echo": [1, "ü"]}})
    assert answers[:2] == [{"id": 4, "progress": facts} for facts in said]
    assert answers[2]["result"]["echo"] == [1, "ü"]
    assert len(answers) == 3


def test_jobs_run_in_the_order_of_their_arrival() -> None:
    answers = _answers(*({"id": number, "job": JOB, "arguments": {}} for number in (3, 1, 2)))
    assert [answer["id"] for answer in answers] == [3, 1, 2]


def test_a_cancelled_job_does_not_run() -> None:
    answers = _answers(
        {"id": 1, "job": JOB, "arguments": {"say": [{"at": 1}]}}, {"cancel": 1}, {"cancel": 99},
    )  # fmt: skip
    assert answers == [{"id": 1, "cancelled": True}]


def test_errors_of_the_system_and_of_files_are_answered() -> None:
    answers = _answers(
        {"id": 1, "job": JOB, "arguments": {"refuse": 28}}, {"id": 2, "job": JOB, "arguments": {"blame": "bad batch"}}
    )
    assert answers[0]["errno"] == 28
    assert "refused" in answers[0]["error"]
    assert answers[1] == {"id": 2, "error": "bad batch", "errno": None}


def test_waiting_ends_with_a_cancellation() -> None:
    context = JobContext(1, Output(io.BytesIO()))
    context.check()
    context.wait(0)
    context.cancelled.set()
    with pytest.raises(JobCancelledError):
        context.wait(60)


def test_serving_ends_with_the_input() -> None:
    stream = io.BytesIO()
    codes: list[int] = []
    serve(_lines({"id": 1, "job": JOB, "arguments": {"echo": 5}}), stream, codes.append)
    assert json.loads(stream.getvalue())["result"]["echo"] == 5
    assert codes in ([], [0])  # the reading thread may not have come round to it


def test_main_is_nice_and_takes_over_the_standard_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[object] = []
    (tmp_path / "in").write_bytes(_lines({"id": 1, "job": JOB, "arguments": {"echo": 6}}).getvalue())
    with (tmp_path / "in").open() as stdin, (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        monkeypatch.setattr("sys.argv", ["worker", "7"])
        monkeypatch.setattr("kafkapy.platform.portable.be_nice", lambda niceness: heard.append(niceness) or 0)
        monkeypatch.setattr("os._exit", heard.append)
        monkeypatch.setattr("signal.signal", lambda *_: None)
        runpy.run_path(worker.__file__, run_name="__main__")  # pytest's import hook has no module for runpy
    assert heard[0] == 7
    assert json.loads((tmp_path / "out").read_text())["result"]["echo"] == 6


def test_the_process_ends_with_its_input_and_keeps_its_output_clean() -> None:
    jobs = _lines({"id": 1, "job": JOB, "arguments": {"print": "not a message"}})
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkapy.platform.worker", "1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PACKAGE_ROOT},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdin.write(jobs.getvalue())
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["nice"] >= 1
        process.stdin.close()
        assert process.wait(10) == 0
        assert process.stderr.read() == b"not a message\n"


def test_the_worker_ends_when_its_output_is_closed() -> None:
    """Also during a job: without its broker a worker must not change files, nor print a traceback."""

    class Broken(io.BytesIO):
        def flush(self) -> None:
            raise BrokenPipeError

    ends: list[int] = []
    JobContext(1, Output(Broken(), ends.append)).progress({})
    assert ends == [0]
