"""Runs the console commands of a page, section by section, in one shell, as a reader does."""

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from compat_tests.java_programs import QUICK_START, class_archive
from compat_tests.java_tools import JavaTools
from compat_tests.kafkapy_process import ROOT
from compat_tests.keeper import keeper
from compat_tests.process import free_port
from compat_tests.real_kafka import LOG4J
from tools.jars import class_path
from tools.java import find_java

COMMAND_TIMEOUT_S = 240.0
ENDED_BY_SIGTERM = 128 + 15
"""What `wait` returns for a process of Java that was told to stop."""
TOOLS = {
    "zookeeper-shell.sh": ("ZooKeeperMainWithTlsSupportForKafka", "-server"),
}
BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n)?```(\w*)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^\$ (.*(?:\n    .*)*)$", re.MULTILINE)


HOSTS = "127.0.0.1 localhost broker.example zoo\n127.0.0.2 east\n127.0.0.3 west\n"
"""The machines that pages name, in a network of their own."""
_ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
_ALONE = ["unshare", *_ROOT, "--net", "--mount", "--propagation", "private", "--"]
_SET_UP = 'ip link set lo up && mount --bind hosts /etc/hosts && exec "$@"'


class CommandFailedError(AssertionError):
    """A command of the page ended with another exit code than 0, or did not end."""


class Page:
    """The sections of a page, by the words of their headings, with their files and commands in order."""

    def __init__(self, path: Path) -> None:
        self._sections: dict[str, str] = {}
        for section in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            heading, _, text = section.partition("\n")
            self._sections[heading] = text

    @property
    def headings(self) -> list[str]:
        """The headings of the sections that have commands."""
        return [heading for heading, text in self._sections.items() if "```console" in text]

    def steps(self, heading: str) -> list[tuple[str | None, str]]:
        """The files of a section, as name and content, and its commands, as None and the command."""
        found: list[tuple[str | None, str]] = []
        for name, language, text in BLOCK.findall(self._sections[heading]):
            if name:
                found.append((name, text))
            elif language == "console":
                found += [(None, command) for command in COMMAND.findall(text)]
        return found


class Shell:
    """A bash in a directory; processes that it starts in the background end with it.

    `ports` are the port numbers of a page; free ones take their place, here and in `port`. Without them the shell has a
    network of its own, in which all ports are free.
    """

    def __init__(self, directory: Path, ports: Iterable[int] = ()) -> None:
        self.directory = directory
        self._ports = {str(port): str(free_port()) for port in ports}
        alone = [] if self._ports else [*_ALONE, "sh", "-ec", _SET_UP, "sh"]
        (directory / "hosts").write_text(HOSTS)
        self.log_path = directory / "shell.log"
        programs = _programs(directory / "bin")
        path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
        self._told, told = os.pipe()
        with self.log_path.open("wb") as log:
            self._bash = subprocess.Popen(
                [*alone, "bash", "--noprofile", "--norc"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(told,),
                cwd=directory,
                env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
                start_new_session=True,
            )
        os.close(told)
        self._descriptor = told
        self._jobs: set[int] = set()
        keeper().note("process", self._bash.pid)

    def port(self, port: int) -> int:
        """The port that takes the place of one of the page."""
        return int(self._ports[str(port)])

    def write(self, name: str, content: str) -> None:
        """Write a file of the page."""
        (self.directory / name).write_text(self._with_ports(content))

    def run(self, command: str, timeout_s: float = COMMAND_TIMEOUT_S) -> None:
        """Run a command to its end; raises CommandFailedError, with the end of what the shell has shown."""
        text = self._with_ports(command)
        assert self._bash.stdin is not None
        lines = f'echo "$ "{_quoted(text)}\n{{\n{text}\n}} </dev/null\necho "$?" $(jobs -p) >&{self._descriptor}\n'
        self._bash.stdin.write(lines.encode())
        self._bash.stdin.flush()
        code, *jobs = self._answer(command, timeout_s).split()
        self._keep(set(map(int, jobs)))
        if int(code) not in (0, ENDED_BY_SIGTERM):
            raise CommandFailedError(f"{command}\nended with {code}:\n{self.log_tail()}")

    def _answer(self, command: str, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        answer = b""
        while not answer.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._told], [], [], left)[0]:
                raise CommandFailedError(f"{command}\ndid not end within {timeout_s:.0f} s:\n{self.log_tail()}")
            read = os.read(self._told, 4096)
            if not read:
                raise CommandFailedError(f"{command}\nended the shell:\n{self.log_tail()}")
            answer += read
        return answer.decode()

    def _keep(self, jobs: set[int]) -> None:
        for job in jobs - self._jobs:
            keeper().note("process", job)
        for job in self._jobs - jobs:
            keeper().forget("process", job)
        self._jobs = jobs

    def _with_ports(self, text: str) -> str:
        return re.sub(r"\b\d{4}\b", lambda found: self._ports.get(found[0], found[0]), text)

    def log_tail(self, lines: int = 60) -> str:
        """The last lines that the shell, its commands and brokers have written."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the brokers that still run, then the shell."""
        for job in self._jobs:
            subprocess.run(["kill", "-KILL", str(job)], check=False, capture_output=True)
            keeper().forget("process", job)
        self._bash.kill()
        self._bash.communicate()
        keeper().forget("process", self._bash.pid)
        os.close(self._told)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _programs(directory: Path) -> Path:
    """Apache Kafka's scripts: a folder for the PATH with programs of the same names, from the jars of 2.7.2."""
    directory.mkdir()
    tools = JavaTools("2.7.2")
    commands = {name: tools.command(*tool) for name, tool in TOOLS.items()}
    logging = directory / "log4j.properties"
    logging.write_text(LOG4J.format(level="WARN", request_level="OFF"))
    archive = class_archive("2.7.2")
    options = [*QUICK_START, *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else ())]
    servers = {
        "kafka-server-start.sh": ["-Xmx384M", "kafka.Kafka"],
        "zookeeper-server-start.sh": ["-Xmx256M", "org.apache.zookeeper.server.quorum.QuorumPeerMain"],
    }
    # Linux shares a busy processor out between sessions: a service has one of its own.
    alone = ["setsid"] if shutil.which("setsid") else []
    for name, (heap, main) in servers.items():
        java = [
            *alone,
            *find_java().command,
            heap,
            *options,
            "-Dzookeeper.forceSync=no",
            f"-Dlog4j.configuration=file:{logging}",
        ]
        commands[name] = [*java, "-cp", class_path("2.7.2"), main]
    for name, command in commands.items():
        script = directory / name
        script.write_text(f'#!/bin/sh\nexec {" ".join(map(_quoted, command))} "$@"\n')
        script.chmod(0o755)
    return directory
