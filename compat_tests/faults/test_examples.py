"""The examples of docs/faults.md, in each of their languages, as they stand there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.clients.agents import HERE, go_command, node
from compat_tests.java_programs import MissingToolchainError, java_command
from compat_tests.kafkapy_process import ROOT

EXAMPLES = Path(__file__).resolve().parent
PAGE = ROOT / "docs" / "faults.md"
FILES = {
    "python": EXAMPLES / "faults.py",
    "python of groups": EXAMPLES / "members.py",
    "java": EXAMPLES / "Faults.java",
    "go": HERE / "go" / "faults" / "main.go",
    "javascript": EXAMPLES / "faults.js",
}
SEEN = ["ok: the producer has tried again", "ok: the record is there", "ok: its hour is over"]
SEEN_OF_GROUPS = ["ok: the consumer has joined again", "ok: the fourth record came after the pause"]


def _command(language: str) -> list[str]:
    if FILES[language].suffix == ".py":
        return [sys.executable, str(FILES[language])]
    if language == "go":
        return go_command("faults")
    if language == "javascript":
        return node(FILES[language])
    return java_command("Faults", [FILES[language]], "2.7.2")


@pytest.mark.parametrize("language", FILES)
def test_an_example_prints_the_expected_lines(language: str, tmp_path: Path) -> None:
    try:
        command = _command(language)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(tmp_path),
    }
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert run.returncode == 0, run.stderr
    seen = SEEN_OF_GROUPS if language == "python of groups" else SEEN
    assert [line for line in run.stdout.splitlines() if line in seen] == seen


@pytest.mark.parametrize("language", FILES)
def test_the_page_shows_the_example(language: str) -> None:
    assert f"```{language.split(maxsplit=1)[0]}\n{FILES[language].read_text(encoding='utf-8')}```\n" in PAGE.read_text(
        encoding="utf-8"
    )
