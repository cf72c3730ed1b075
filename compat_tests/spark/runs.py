"""Pipelines as processes that a test may kill, with the Java that they have started."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.java import find_java
from harness.java_programs import QUICK_START
from harness.keeper import keeper
from harness.process import wait_for

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 500.0
QUIET = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "2"}


def quick_java() -> dict[str, str]:
    """The environment of programs that start Spark: their Java compiles little, which halves what short runs cost."""
    own = {"JAVA_TOOL_OPTIONS": " ".join(QUICK_START), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **find_java().environment(), **own}


def start(name: str, *arguments: str) -> subprocess.Popen[str]:
    """`python -m spark_examples NAME`, in a process group of its own; errors come with its output."""
    return _start([sys.executable, "-m", "spark_examples", name, *arguments], ROOT)


def submit(name: str, directory: Path, *arguments: str) -> subprocess.Popen[str]:
    """`spark-submit job.py` with a copy of the pipeline's job file, in a directory without this repository.

    That shows that the file runs by itself. The directory must be empty or not there; relative paths of the job's
    options are below it.
    """
    from spark_examples.common.session import jar_settings

    directory.mkdir(exist_ok=True)
    shutil.copy(ROOT / "spark_examples" / name / "job.py", directory)
    settings = jar_settings() | QUIET
    given = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    spark_submit = [sys.executable, "-c", "import pyspark.find_spark_home as f; print(f._find_spark_home())"]
    home = subprocess.run(spark_submit, capture_output=True, text=True, check=True).stdout.strip()
    return _start([f"{home}/bin/spark-submit", "--master", "local[2]", *given, "job.py", *arguments], directory)


def _start(command: list[str], directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=directory,
        env=quick_java(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Ends a pipeline and its Java without warning."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def finished(process: subprocess.Popen[str], code: int, timeout_s: float = TIMEOUT_S) -> str:
    """The output, in one line, of a pipeline that ends with this exit code in time."""
    told, _ = process.communicate(timeout=timeout_s)
    assert process.returncode == code, told
    return " ".join(told.split())


@contextmanager
def starter(name: str, *given: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts runs of a pipeline with these arguments and those of each call; they are over when the context is."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        started.append(start(name, *given, *arguments))
        return started[-1]

    try:
        yield begin
    finally:
        for process in started:
            kill(process)


class PipelineRun:
    """One run of `python -m spark_examples NAME`, or of another command, in a process group of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._lines: list[str] = []
        self._process = process
        keeper().note("process", self._process.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._lines.extend(self._process.stdout)

    @property
    def told(self) -> str:
        """The lines that it has printed so far."""
        return "".join(self._lines)

    def count(self, event: str) -> int:
        """How many of its lines name the event."""
        return sum(event in line for line in list(self._lines))

    def lasts_until(self, condition: Callable[[], bool], what: str, every_s: float = 0.02) -> bool:
        """Waits for the condition; False if the run ended by itself. Fails if neither comes in time."""
        came = wait_for(lambda: condition() or self._process.poll() is not None, TIMEOUT_S, every_s)
        assert came, f"not seen: {what}\n{self.told}"
        return self._process.poll() is None

    def wait_until(self, condition: Callable[[], bool], what: str, every_s: float = 0.02) -> None:
        """The same, but the run must last."""
        assert self.lasts_until(condition, what, every_s), (
            f"it ended before it could be disturbed ({what}):\n{self.told}"
        )

    def kill(self) -> None:
        """Ends it and its Java without warning."""
        kill(self._process)
        self._reader.join(10)
        keeper().forget("process", self._process.pid)

    def end(self, timeout_s: float = TIMEOUT_S) -> int:
        """Waits for its end; its exit code."""
        code = self._process.wait(timeout_s)
        self._reader.join(10)
        return code

    def succeed(self, timeout_s: float = TIMEOUT_S) -> str:
        """Waits for its end, which must be a success; what it printed, in one line."""
        assert self.end(timeout_s) == 0, self.told
        return " ".join(self.told.split())


@contextmanager
def pipeline(name: str, *arguments: str) -> Iterator[PipelineRun]:
    """A run of `python -m spark_examples NAME` that is over when the context is."""
    with watched(start(name, *arguments)) as run:
        yield run


@contextmanager
def watched(process: subprocess.Popen[str]) -> Iterator[PipelineRun]:
    """A process whose output is read, and that is over when the context is."""
    run = PipelineRun(process)
    try:
        yield run
    finally:
        run.kill()
