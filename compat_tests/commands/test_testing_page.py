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
AROUND = {
    "java": """import java.io.*;
public class Example {{
    public static void main(String[] arguments) throws Exception {{
        {}
        System.out.println(bootstrap);
        System.in.read();
    }}
}}
""",
    "go": """package main
import ("bufio"; "fmt"; "os"; "os/exec")
func main() {{
    {}
    fmt.Print(bootstrap)
    os.Stdin.Read(make([]byte, 1))
}}
""",
    "javascript": """const {{ spawn }} = require('node:child_process')
const {{ once }} = require('node:events')
async function main() {{
    {}
    console.log(bootstrap)
}}
main()
""",
    "console": "{} >&2\ncat bootstrap\nread -r _\n",
}
"""What a program wants around an example: it tells the address and waits."""
TOOLS = {"go": "the go command", "javascript": "the node command", "console": "kcat (Debian's package of that name)"}
END_S = 10.0


def _example(language: str) -> str:
    """The one of that language below the page's heading."""
    section = PAGE.partition("## From any other language")[2]
    (found,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return re.sub(r"^\$ ", "", found, flags=re.MULTILINE).rstrip()


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
    file.write_text(AROUND[language].format(_example(language)), encoding="utf-8")
    command = _command(language, file)
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
