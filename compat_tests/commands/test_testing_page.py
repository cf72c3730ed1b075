"""docs/testing.md: the broker of a program in another language ends with the program, also when it is killed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.clients.client import Sent
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.pages import snippets
from harness.java import NoJavaError, find_java
from harness.kafkapy_process import ROOT
from harness.process import answers_api_versions, wait_for

HEADINGS = {"bash": "From a shell", "java": "In Java", "go": "In Go", "javascript": "In JavaScript"}
WAITS = "\ncat bootstrap\nread -r _\n"
"""The code behind the commands of a shell: the programs in other languages print the address and wait by themselves."""
TOOLS = {"go": "go", "javascript": "node"}
END_S = 10.0


def _program(language: str, directory: Path) -> Path:
    """A file with the page's program in that language, which waits with the broker's address as its first line."""
    (snippet,) = snippets.section("docs/testing.md", HEADINGS[language]).snippets
    if language == "bash":
        snippet = snippet._replace(text=f"{{\n{snippet.text}}} >&2{WAITS}")
    return snippets.write(snippet, directory)


def _command(language: str, file: Path) -> list[str]:
    """How the program is started; skips, by its name, where a toolchain is missing."""
    if language == "bash":
        return ["bash", str(file)]
    if language == "java":
        try:
            java = find_java()
        except NoJavaError as missing:
            pytest.skip(str(missing))
        if not java.has_compiler:
            pytest.skip(f"the example in Java wants a JDK: {java.home} has no compiler")
        return [*java.command, str(file)]
    tool = TOOLS[language]
    if shutil.which(tool) is None:
        pytest.skip(f"the example in {language} wants the {tool} command")
    if language == "go":  # `go run` would be killed without the program that it has started
        program = file.with_suffix("")
        subprocess.run(["go", "build", "-o", str(program), str(file)], check=True, timeout=110, cwd=file.parent)
        return [str(program)]
    return [tool, str(file)]


@pytest.mark.parametrize("language", HEADINGS)
def test_the_broker_of_an_example_ends_with_its_program(language: str, tmp_path: Path) -> None:
    command = _command(language, _program(language, tmp_path))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(temporary),
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, cwd=tmp_path, text=True) as program:
        assert program.stdout is not None
        bootstrap = program.stdout.readline().strip()
        port = int(bootstrap.rpartition(":")[2])
        client = ConfluentClient(bootstrap)
        client.create_topic("orders")
        assert client.produce("orders", [Sent(b"first")]) == [(0, 0)]
        program.kill()
    assert wait_for(lambda: not answers_api_versions(port), END_S)
    assert wait_for(lambda: not list(temporary.glob("kafkapy*")), END_S)
