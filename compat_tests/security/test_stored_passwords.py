"""Encrypted passwords beside Apache Kafka's own class: each side reads what the other has written."""

import random
from typing import Final

import pytest

from compat_tests.security.oracles import ask, word
from kafkapy.security.password_encoder import EncoderSettings, decode_password, encode_password

pytestmark = pytest.mark.java

COUNT: Final = 60
CHARACTERS: Final = "abcXYZ019 ,:=\"'\\\n;é€ü😀"


def _line(command: str, settings: EncoderSettings, text: str) -> str:
    return f"{command} {word(settings.secret)} {settings.key_length} {settings.iterations} {word(text)}"


def test_each_side_reads_what_the_other_has_written() -> None:
    draw = random.Random(1)

    def text(least: int) -> str:
        return "".join(draw.choice(CHARACTERS) for _ in range(draw.randrange(least, 60)))

    cases = [
        (EncoderSettings(text(1), key_length=draw.choice([128, 256]), iterations=draw.choice([1024, 4096])), text(0))
        for _ in range(COUNT)
    ]
    passwords = [password for _, password in cases]
    theirs = ask("PasswordOracle", [_line("encode", *case) for case in cases])
    stored_by_them = zip(cases, theirs, strict=True)
    assert [decode_password(settings.secret, f"{stored}") for (settings, _), stored in stored_by_them] == passwords
    ours = [encode_password(settings, password) for settings, password in cases]
    asked = [_line("decode", settings, stored) for (settings, _), stored in zip(cases, ours, strict=True)]
    assert ask("PasswordOracle", asked) == passwords
    others = [settings._replace(secret=settings.secret + "x") for settings, _ in cases]
    asked = [_line("decode", other, stored) for other, stored in zip(others, ours, strict=True)]
    assert set(ask("PasswordOracle", asked)) == {None}
