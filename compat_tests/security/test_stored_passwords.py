"""Encrypted passwords beside Apache Kafka's own class: each side reads what the other has written."""

import random
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final

import pytest

from harness.java_programs import MissingToolchainError, java_command
from kafkapy.security.password_encoder import EncoderSettings, decode_password, encode_password

pytestmark = pytest.mark.java

ORACLE: Final = Path(__file__).parents[1] / "java" / "PasswordOracle.java"
COUNT: Final = 60
CHARACTERS: Final = "abcXYZ019 ,:=\"'\\\n;é€ü😀"


def _ask(lines: list[str]) -> list[str | None]:
    try:
        command = java_command("PasswordOracle", [ORACLE], "2.7.2")
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=60, check=True)
    answers = run.stdout.split("\n")[: len(lines)]
    assert len(answers) == len(lines)
    return [None if answer == "-" else b64decode(answer).decode() for answer in answers]


def _word(text: str) -> str:
    return b64encode(text.encode()).decode()


def _line(command: str, settings: EncoderSettings, text: str) -> str:
    return f"{command} {_word(settings.secret)} {settings.key_length} {settings.iterations} {_word(text)}"


def test_each_side_reads_what_the_other_has_written() -> None:
    draw = random.Random(1)

    def text(least: int) -> str:
        return "".join(draw.choice(CHARACTERS) for _ in range(draw.randrange(least, 60)))

    cases = [
        (EncoderSettings(text(1), key_length=draw.choice([128, 256]), iterations=draw.choice([1024, 4096])), text(0))
        for _ in range(COUNT)
    ]
    passwords = [password for _, password in cases]
    theirs = _ask([_line("encode", *case) for case in cases])
    stored_by_them = zip(cases, theirs, strict=True)
    assert [decode_password(settings.secret, f"{stored}") for (settings, _), stored in stored_by_them] == passwords
    ours = [encode_password(settings, password) for settings, password in cases]
    stored_by_us = zip(cases, ours, strict=True)
    assert _ask([_line("decode", settings, stored) for (settings, _), stored in stored_by_us]) == passwords
    others = [settings._replace(secret=settings.secret + "x") for settings, _ in cases]
    assert set(_ask([_line("decode", other, stored) for other, stored in zip(others, ours, strict=True)])) == {None}
