"""A reader's shell: runs snippets in one directory and one network, in which all ports are free.

The network, and the processes, are in namespaces of their own. So a page may print any port, whatever else runs on the
machine, and everything that it has started ends with its shell.
"""

import os
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from compat_tests.pages import snippets, toolchains
from compat_tests.pages.snippets import SHELL, Snippet
from harness.java_programs import MissingToolchainError
from harness.process import wait_for

SNIPPET_TIMEOUT_S = 480.0
OUTPUT_TIMEOUT_S = 60.0
END_S = 5.0
HOSTS = "127.0.0.1 localhost broker.example zoo\n127.0.0.2 east\n127.0.0.3 west\n"
"""The machines that pages name."""
_USER = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
"""Root needs no user namespace, which some systems refuse."""
_NAMESPACES = [*_USER, "--net", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc"]
_SET_UP = 'ip link set lo up; mount --bind "$0" /etc/hosts; exec "$@"'
_FAIL = """set -o pipefail
trap 'code=$?; [ $code = 143 ] || { echo "a command ended with $code: $BASH_COMMAND"; exit $code; }' ERR"""
"""Ends the shell when a command fails. 143 is what `wait` returns for a process of Java that was told to stop."""
_STOP = "for job in $(jobs -p); do kill $job 2>/dev/null || true; wait $job; done"
"""A process in the background that had failed makes this fail."""


class SnippetFailedError(AssertionError):
    """A snippet failed, did not end, or did not print what the page shows."""


def alone(directory: Path) -> list[str]:
    """The begin of a command that runs in a network of its own; raises MissingToolchainError."""
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            raise MissingToolchainError(f"pages run in a network of their own, which wants the {tool} command")
    hosts = directory / "hosts"
    hosts.write_text(f"{HOSTS}127.0.0.1 {socket.gethostname()}\n")
    command = ["unshare", *_NAMESPACES, "--", "sh", "-ec", _SET_UP, str(hosts)]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise MissingToolchainError(f"this machine allows no network namespace: {tried.stderr.strip()}")
    return command


class Shell:
    """A bash in a directory; `prefix` is the begin of its command, `alone` or nothing for one that is in it already."""

    def __init__(self, directory: Path, environment: Mapping[str, str], prefix: list[str]) -> None:
        self.directory = directory
        self._log = directory / "shell.log"
        self._told, told = os.pipe()
        self._descriptor = told
        with self._log.open("wb") as log:
            self._bash = subprocess.Popen(
                [*prefix, "bash", "--noprofile", "--norc"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(told,),
                cwd=directory,
                env=environment,
                start_new_session=True,
            )
        os.close(told)
        self._run(_FAIL)

    def run(self, snippet: Snippet) -> None:
        """Run a snippet, write a file, or wait for output; raises SnippetFailedError."""
        if snippet.is_output:
            self._wait_for(snippet.text)
        elif snippet.runs or snippet.file:
            path = snippets.write(snippet, self.directory)
            if snippet.runs:
                self._mark = self._log.stat().st_size
                self._run_file(snippet, path)

    def run_before(self, text: str) -> None:
        """Run commands that make what a section finds."""
        self.run(Snippet(0, SHELL, text, "", is_output=False))

    def stop(self) -> None:
        """End what runs in the background, which must have run until now."""
        self._run(_STOP)

    def _run_file(self, snippet: Snippet, path: Path) -> None:
        if snippet.language == SHELL:
            self._run(f"source ./{path.name} < /dev/null")
        else:
            words = " ".join(map(toolchains.quoted, toolchains.command(snippet, path)))
            self._run(f"{words} < /dev/null")

    def _wait_for(self, output: str) -> None:
        if not wait_for(lambda: snippets.shows(output, self._printed(self._mark)), OUTPUT_TIMEOUT_S):
            raise SnippetFailedError(f"not printed:\n{output}\nbut:\n{self._printed(self._mark)}")

    def _printed(self, begin: int = 0) -> str:
        return self._log.read_bytes()[begin:].decode(errors="replace")

    def _run(self, command: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{command}\necho >&{self._descriptor}\n".encode())
        self._bash.stdin.flush()
        deadline = time.monotonic() + SNIPPET_TIMEOUT_S
        if not select.select([self._told], [], [], deadline - time.monotonic())[0]:
            raise SnippetFailedError(f"{command}\ndid not end within {SNIPPET_TIMEOUT_S:.0f} s:\n{self.log_tail()}")
        if not os.read(self._told, 1):
            raise SnippetFailedError(f"{command}\nfailed:\n{self.log_tail()}")

    def log_tail(self, lines: int = 60) -> str:
        """The last lines that the shell and what it runs have written."""
        return "\n".join(self._printed().splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the shell, and with it all processes of its namespace."""
        try:
            self._bash.communicate(timeout=END_S if error is None else 0)
        except subprocess.TimeoutExpired:
            self._bash.kill()
            self._bash.communicate()
        os.close(self._told)
