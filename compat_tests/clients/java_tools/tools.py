"""Kafka's tools of one release, kept in one JVM (ToolServer.java) that runs their main methods one after the other.

Where no Java compiler is there, each call starts a JVM of its own: slower, with the same result.
"""

import base64
import select
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.jars import class_path
from tools.java import find_java

SOURCE = Path(__file__).with_name("ToolServer.java")
LOG4J = Path(__file__).resolve().parents[2] / "log4j-tools.properties"
QUICK_START = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256M"]
QUIET = [f"-Dlog4j.configuration=file:{LOG4J}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
# The package that each release keeps a tool in.
SCALA_TOOLS = {
    "2": {
        "kafka.admin": "TopicCommand ConfigCommand ConsumerGroupCommand DeleteRecordsCommand LogDirsCommand "
        "BrokerApiVersionsCommand",
        "kafka.tools": "ConsumerPerformance GetOffsetShell DumpLogSegments ConsoleConsumer ConsoleProducer",
    },
    "3": {"kafka.admin": "ConfigCommand BrokerApiVersionsCommand", "kafka.tools": "DumpLogSegments ConsoleProducer"},
    "4": {"kafka.admin": "ConfigCommand", "kafka.tools": "DumpLogSegments"},
}
DEEPER = {"ConsumerGroupCommand": "consumer.group.", "ConsoleConsumer": "consumer."}


def main_class(version: str, tool: str) -> str:
    """The full name of a tool's class in this release."""
    for package, names in SCALA_TOOLS[version[0]].items():
        if tool in names.split():
            return f"{package}.{tool}"
    return f"org.apache.kafka.tools.{DEEPER.get(tool, '')}{tool}"


@dataclass(frozen=True)
class Said:
    """What a tool printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        """Both streams."""
        return self.out + self.err


class Tools:
    """The tools of one release."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._process: subprocess.Popen[str] | None = None
        self._classes = tempfile.TemporaryDirectory(prefix="tool-server-")

    def __enter__(self) -> Self:
        java = find_java()
        if java.has_compiler:
            compiler = [str(java.home / "bin" / "javac"), "-cp", class_path(self.version), "-d", self._classes.name]
            subprocess.run([*compiler, str(SOURCE)], check=True, capture_output=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()
        self._classes.cleanup()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()

    def _java(self) -> list[str]:
        path = f"{self._classes.name}:{class_path(self.version)}"
        return [*find_java().command, *QUICK_START, *QUIET, "-cp", path]

    def attempt(self, tool: str, *arguments: str, text: str = "", timeout_s: float = 60) -> Said:
        """Runs the tool with `text` as its input, whatever its exit code."""
        name = main_class(self.version, tool)
        if not find_java().has_compiler:
            command = [*self._java(), name, *arguments]
            run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout_s, check=False)
            return Said(run.returncode, run.stdout, run.stderr)
        question = " ".join(base64.b64encode(word.encode()).decode() for word in (name, text, *arguments))
        code, out, err = self._ask(question, f"{tool} {' '.join(arguments)}", timeout_s).split(" ")
        return Said(int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode())

    def _ask(self, question: str, what: str, timeout_s: float) -> str:
        if self._process is None:
            self._process = subprocess.Popen(
                [*self._java(), "ToolServer"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        answer = self._process.stdout.readline() if ready else ""
        if not answer:
            self._end()
            raise AssertionError(f"{what} of {self.version} did not end within {timeout_s:.0f} s")
        return answer.rstrip("\n")

    def run(self, tool: str, *arguments: str, text: str = "", timeout_s: float = 60) -> str:
        """Runs the tool; returns its output, fails on a non-zero exit code."""
        said = self.attempt(tool, *arguments, text=text, timeout_s=timeout_s)
        assert said.code == 0, f"{tool} {' '.join(arguments)} of {self.version} ended with {said.code}:\n{said.all}"
        return said.out
