"""docs/testing.md: what it shows in other languages starts a broker, which goes with the program, however that ends."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.clients.client import Sent
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.kafkapy_process import ROOT
from compat_tests.process import answers_api_versions, wait_for
from tools.java import NoJavaError, find_java

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = {"java": "Example.java", "go": "main.go", "javascript": "example.js", "console": "example.sh"}
SHELL_END = "\ncat bootstrap\nread -r _\n"
"""What follows the commands of a shell: the programs in other languages print the address and wait by themselves."""
TOOLS = {"go": "the go command", "javascript": "the node command", "console": "kcat (Debian's package of that name)"}
END_S = 10.0


def _program(language: str) -> str:
    """The page's one program in that language, as printed; a console's commands without their prompts."""
    section = PAGE.partition("## From any other language")[2]
    (found,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    if language != "console":
        return str(found)
    return "{\n" + re.sub(r"^\$ ", "", found, flags=re.MULTILINE) + "} >&2" + SHELL_END


def _environment(temporary: Path) -> dict[str, str]:
    """With the kafkapy of this checkout, whose temporary directories are below ``temporary``."""
    temporary.mkdir()
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(temporary),
    }


def _command(language: str, file: Path) -> list[str]:
    """How the program is started; skips, by its name, where a toolchain is missing."""
    if language == "java":
        try:
            java = find_java()
        except NoJavaError as missing:
            pytest.skip(str(missing))
        if not java.has_compiler:
            pytest.skip(f"the example in Java wants a JDK: {java.home} has no compiler")
        return [*java.command, str(file)]
    wanted = TOOLS[language]
    if shutil.which("kcat" if language == "console" else wanted.split()[1]) is None:
        pytest.skip(f"the example in {language} wants {wanted}")
    if language == "go":
        program = file.with_suffix("")
        subprocess.run(["go", "build", "-o", str(program), str(file)], check=True, timeout=110, cwd=file.parent)
        return [str(program)]
    return ["node" if language == "javascript" else "sh", str(file)]


@pytest.mark.parametrize("language", FILES)
def test_the_broker_of_an_example_ends_with_its_program(language: str, tmp_path: Path) -> None:
    file = tmp_path / FILES[language]
    file.write_text(_program(language), encoding="utf-8")
    command = _command(language, file)
    temporary = tmp_path / "temporary"
    environment = _environment(temporary)
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


@pytest.mark.parametrize("language", [language for language in FILES if language != "console"])
def test_an_example_ends_by_itself_with_its_broker(language: str, tmp_path: Path) -> None:
    file = tmp_path / FILES[language]
    file.write_text(_program(language), encoding="utf-8")
    command = _command(language, file)
    temporary = tmp_path / "temporary"
    environment = _environment(temporary)
    run = subprocess.run(
        command, input="\n", capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    (bootstrap,) = run.stdout.splitlines()
    assert wait_for(lambda: not answers_api_versions(int(bootstrap.rpartition(":")[2])), END_S)
    assert wait_for(lambda: not list(temporary.glob("kafkapy*")), END_S)
