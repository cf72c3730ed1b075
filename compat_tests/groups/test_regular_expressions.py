"""Regular expressions select the topics that Apache Kafka's RE2J selects."""

import re
import subprocess
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from compat_tests.codec.oracle import oracle_command
from kafkapy.coordinator.regular_expressions import InvalidRegularExpressionError, RegularExpression

JAVA = Path(__file__).parents[1] / "java"
RELEASE = "4.4.0"
RANDOM_PATTERNS = 3000
ATOMS = (
    *(
        "a",
        "b",
        "ab",
        "-",
        "\\.",
        ".",
        "_",
        "0",
        "\\d",
        "\\w",
        "\\W",
        "\\s",
        "\\S",
        "\\D",
        "^",
        "$",
        "\\b",
        "\\B",
        "\\A",
        "\\z",
        "",
    ),
    *(
        "[ab]",
        "[^a]",
        "[a-z]",
        "[a-z0-9._-]",
        "[]a]",
        "[^]]",
        "[[:alpha:]]",
        "[[:^digit:]]",
        "[[:word:]-]",
        "\\pL",
        "\\p{Lu}",
        "\\PN",
    ),
    *(
        "\\p{Greek}",
        "\\Qa.b\\E",
        "\\x41",
        "\\x{61}",
        "\\101",
        "\\n",
        "\\-",
        "\\_",
        "(?i)a",
        "(?s).",
        "(?m)^",
        "(?U)a",
        "(?i:A)",
    ),
    *("(?:a|b)", "(?P<n>a)", "(?<n>a)", "\\pZ", "\\é", "é", "[\\d_]", "[^\\W]", "{", "}", "a{", "{1}", "x*", "[a-\\d]"),
    *(
        "[z-a]",
        "[a",
        "(",
        ")",
        "\\",
        "(?",
        "(?<=a)",
        "(?=a)",
        "(?!a)",
        "\\1",
        "\\C",
        "\\Z",
        "\\h",
        "\\p{Nope}",
        "[[:nope:]]",
        "[[.a.]]",
    ),
)
REPEATS = (
    "",
    "",
    "",
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{0,2}",
    "{1,}",
    "{2,1}",
    "{1001}",
    "**",
    "{2}{3}",
    "{,2}",
)
NAMES = (
    *(
        "",
        "a",
        "b",
        "ab",
        "aa",
        "A",
        "aB",
        "abab",
        "a.b",
        "topic-1",
        "topic_2",
        "TOPIC",
        "__consumer_offsets",
        "0",
        "00",
        "42",
        "-",
    ),
    *(
        "a-b",
        "a_b",
        "a{",
        "{1}",
        "é",
        "É",
        "\u03b1",
        "日本語",
        "\n",
        "a\n",
        "b\na",
        "aaaaaaaa",
        "x.y.z",
        "_",
        ".",
        "]",
        "K",
        "K",
    ),
)

TAKEN_BY_RE2J = re.compile(r"\\é|\(a\{100\}\)\{100\}|\\pL\{1000\}")
TAKEN_BY_RE2 = re.compile(r"\\C|\{[*+?{]|<n>.*<n>|\{\d{10}")
"""The known differences: what only RE2J takes, and what only RE2 takes."""
MORE_PATTERNS = (
    *(
        "(a{100}){100}",
        "\\pL{1000}",
        "a{9999999999}",
        "(?P<n>a)(?P<n>b)",
        "(?i)k",
        "(?i)\u017f",
        "((a{10}){10}){10}",
        ".{1000}",
    ),
    *(
        "x" * 30000,
        "(" * 999 + "a" + ")" * 999,
        "(" * 1001 + "a" + ")" * 1001,
        "\\Qab",
        "a\\E",
        "[\\Qa\\E]",
        "||",
        "(|a)*",
        "^*",
    ),
    *(
        "\x00",
        "a{2}?",
        "a{2}+",
        "(?i-s:a)",
        "(?z)a",
        "(?P=n)",
        "\\x{110000}",
        "\\pLu",
        "\\p{^Lu}",
        "\\p{Any}",
        "[a-b-c]",
        "[--a]",
    ),
)


def kafka_answers(patterns: Sequence[str]) -> list[str]:
    command = oracle_command(JAVA / "RegexOracle.java", RELEASE)
    names = " ".join(map(word, NAMES))
    lines = "".join(f"{word(pattern)} {names}\n" for pattern in patterns)
    return subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=120, check=True
    ).stdout.splitlines()


def word(text: str) -> str:
    return b64encode(text.encode()).decode()


def answer(pattern: str) -> str:
    try:
        expression = RegularExpression(pattern)
    except InvalidRegularExpressionError as error:
        return f"invalid {error}"
    return "".join("01"[expression.matches(name)] for name in NAMES)


def random_pattern(random: Random) -> str:
    parts = [random.choice(ATOMS) + random.choice(REPEATS) for _ in range(random.randint(1, 4))]
    pattern = "".join(parts)
    if random.random() < 0.3:
        pattern = f"({pattern}){random.choice(REPEATS)}"
    return f"{pattern}|{random.choice(ATOMS)}" if random.random() < 0.3 else pattern


@pytest.mark.java
def test_expressions_select_the_names_that_kafka_selects() -> None:
    random = Random(1)
    simple = [atom + repeat for atom in ATOMS for repeat in REPEATS]
    patterns = [*simple, *MORE_PATTERNS, *(random_pattern(random) for _ in range(RANDOM_PATTERNS))]
    both = 0
    for pattern, theirs in zip(patterns, kafka_answers(patterns), strict=True):
        ours = answer(pattern)
        if ours.startswith("invalid"):
            assert theirs.startswith("invalid") or TAKEN_BY_RE2J.search(pattern), pattern
        elif theirs.startswith("invalid"):
            assert TAKEN_BY_RE2.search(pattern), pattern
        else:
            assert ours == theirs, pattern
            both += 1
    assert both > 1000
