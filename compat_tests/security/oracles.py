"""Small Java programs that answer for Apache Kafka's classes: a line in, a line out, words in base64."""

import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from harness.java_programs import MissingToolchainError, java_command

JAVA: Final = Path(__file__).parents[1] / "java"


def run_oracle(name: str, lines: Sequence[str], timeout_s: float = 60) -> list[str]:
    """The answers of ``java/NAME.java`` with the classes of 2.7.2; skips where there is no Java."""
    try:
        command = java_command(name, [JAVA / f"{name}.java"], "2.7.2")
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=timeout_s, check=True)
    return run.stdout.splitlines()


def ask(name: str, lines: Sequence[str]) -> list[str | None]:
    """Decode an answer for each line; None stands for an exception."""
    answers = run_oracle(name, lines)
    assert len(answers) == len(lines)
    return [None if answer == "-" else b64decode(answer).decode() for answer in answers]


def word(text: str | bytes) -> str:
    """Encode a word of a line."""
    return b64encode(text if isinstance(text, bytes) else text.encode()).decode()
