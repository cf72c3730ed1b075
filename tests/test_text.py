"""Text from outside of kafkapy, made safe for a log line or a terminal."""

import json
import unicodedata

import pytest

from kafkapy.text import nearest, printable, printable_json, shortened

HOSTILE = {
    "line feed": ("a\nb", r"a\nb"),
    "carriage return": ("a\rb", r"a\rb"),
    "escape": ("\x1b[2J", r"\x1b[2J"),
    "one-byte control sequence": ("\x9b2J", r"\x9b2J"),
    "next line": ("a\x85b", r"a\x85b"),
    "delete": ("a\x7f", r"a\x7f"),
    "line separator": ("a\u2028b\u2029", r"a\u2028b\u2029"),
    "right to left": ("\u202egpj.exe\u2066", r"\u202egpj.exe\u2066"),
    "lone surrogate": ("\ud800", r"\ud800"),
    "tag": ("\U000e0041", r"\U000e0041"),
}


@pytest.mark.parametrize(("text", "escaped"), HOSTILE.values(), ids=HOSTILE)
def test_unprintable_characters_are_escaped(text: str, escaped: str) -> None:
    assert printable(text) == escaped
    assert printable(escaped) == escaped
    assert json.loads(printable_json({text: [text]})) == {text: [text]}
    assert printable_json({text: [text]}).isprintable()


def test_every_control_format_and_surrogate_character_is_escaped() -> None:
    kinds = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    hostile = "".join(chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in kinds)
    escaped = printable(hostile)
    assert escaped.isascii()
    assert escaped.isprintable()


def test_printable_text_stays_as_it_is() -> None:
    text = "größer → 漢字 🎉 with \\ and '\""
    assert printable(text) is text
    assert printable_json(text) == json.dumps(text, ensure_ascii=False)


def test_named_characters_stay() -> None:
    assert printable("a\n\tb\r", kept="\n\t") == "a\n\tb\\r"


def test_indented_json_keeps_its_lines() -> None:
    assert printable_json({"a": "\n\x9b"}, indent=1) == '{\n "a": "\\n\\u009b"\n}'
    assert printable_json(b"\x9b", default=lambda data: data.decode("latin-1")) == '"\\u009b"'


def test_the_middle_of_long_text_is_left_out() -> None:
    text = "b" * 30_000 + "e" * 2_768
    assert shortened(text, 400) == f"{'b' * 300}…(32768 characters)…{'e' * 100}"
    assert shortened("x" * 400, 400) == "x" * 400


def test_the_nearest_name_is_suggested() -> None:
    assert nearest("prodce", ["Produce", "Fetch"]) == "; did you mean 'Produce'?"
    assert nearest("x", ["Produce"]) == ""
