"""A Spark standalone cluster on loopback: a master and its workers, each a process from the installed PySpark."""

import json
import socket
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

from compat_tests.spark.runs import quick_java
from harness.java import find_java
from harness.process import HOST, BrokerError, ChildProcess, free_port, wait_for

DAEMON_MEMORY = "256m"
WORKER_MEMORY = "1g"
START_TIMEOUT_S = 240.0
JOIN_TIMEOUT_S = 120.0
HTTP_TIMEOUT_S = 10.0


class SparkDaemon(ChildProcess):
    """One of Spark's own servers, started by `spark-class`."""

    def __init__(self, name: str, main: str, arguments: tuple[str, ...], directory: Path) -> None:
        super().__init__(name, directory)
        self.page = free_port()
        """The port of its web page."""
        self._main = main
        self._arguments = arguments

    def command(self) -> list[str]:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        address = ["--host", self.host, "--port", str(self.port), "--webui-port", str(self.page)]
        return [str(program), self._main, *address, *self._arguments]

    def environment(self) -> dict[str, str]:
        own = {"SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": DAEMON_MEMORY, "PYSPARK_PYTHON": sys.executable}
        return {**quick_java(), **find_java().environment(), **own}

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Spark's servers start much slower than brokers when the machine is busy."""
        super().wait_ready(timeout_s)

    def is_ready(self) -> bool:
        """Whether it accepts connections: it speaks Spark's protocol, not Kafka's."""
        for port in (self.port, self.page):
            try:
                socket.create_connection((self.host, port), timeout=2).close()
            except OSError:
                return False
        return True


class StandaloneCluster:
    """A master and so many workers of one core each, below one directory; they end with the context."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self.master = SparkDaemon("master", "org.apache.spark.deploy.master.Master", (), directory / "master")
        limits = ("--cores", "1", "--memory", WORKER_MEMORY)
        self.work = [directory / f"worker-{number}" / "work" for number in range(workers)]
        self.workers = [
            SparkDaemon(
                f"worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                (*limits, "--work-dir", str(work), self.url),
                work.parent,
            )
            for number, work in enumerate(self.work)
        ]
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """What Spark takes as its master."""
        return f"spark://{self.master.bootstrap}"

    def state(self) -> dict[str, Any]:
        """The workers and applications on the master's page."""
        with urllib.request.urlopen(f"http://{HOST}:{self.master.page}/json/", timeout=HTTP_TIMEOUT_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def finished(self) -> dict[str, int]:
        """By name of a finished application, how many of the workers ran executors of it."""
        return {
            each["name"]: sum(1 for work in self.work if (work / each["id"]).is_dir())
            for each in self.state()["completedapps"]
            if each["state"] == "FINISHED"
        }

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.master)
            for worker in self.workers:
                stack.enter_context(worker)
            if not wait_for(lambda: self.state()["aliveworkers"] == len(self.workers), JOIN_TIMEOUT_S):
                logs = "\n".join(each.log_tail() for each in (self.master, *self.workers))
                raise BrokerError(f"the workers did not join the master:\n{logs}")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
