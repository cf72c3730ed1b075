"""Kafka's tools of one release, kept in one JVM (ToolServer.java) that runs their main methods one after the other.

Where no Java compiler is there, each call starts a JVM of its own: slower, with the same result.
"""

import base64
import select
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.java import find_java
from harness.java_programs import java_command
from harness.java_tools import JavaTools, main_class, options

SOURCE = Path(__file__).with_name("ToolServer.java")


@dataclass(frozen=True)
class Said:
    """The output of a tool, and its exit code."""

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
        self._alone = JavaTools(version)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()

    def attempt(self, tool: str, *arguments: str, text: str = "", timeout_s: float = 60) -> Said:
        """Runs the tool with `text` as its input, with any exit code."""
        if not find_java().has_compiler:
            command = self._alone.command(tool, *arguments)
            run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout_s, check=False)
            return Said(run.returncode, run.stdout, run.stderr)
        words = (main_class(self.version, tool), text, *options(self.version, tool, arguments))
        question = " ".join(base64.b64encode(word.encode()).decode() for word in words)
        code, out, err = self._ask(question, f"{tool} {' '.join(arguments)}", timeout_s).split(" ")
        return Said(int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode())

    def _ask(self, question: str, what: str, timeout_s: float) -> str:
        if self._process is None:
            self._process = subprocess.Popen(
                java_command("ToolServer", [SOURCE], self.version),
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


ToolsOf = Callable[[str], Tools]
"""Gives the tools of a release, one running JVM for each."""
