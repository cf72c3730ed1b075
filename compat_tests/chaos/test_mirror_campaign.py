"""The checks of the mirror's campaign find what they should, and a short campaign finds nothing."""

import subprocess
import sys
from collections import Counter

import pytest

from compat_tests.chaos.mirror_campaign import MODULE, WEIGHTS, drawn
from compat_tests.chaos.mirror_load import first_difference, first_disorder
from compat_tests.exchange.contents import Read
from harness.kafkapy_process import ROOT


def _reads(text: str) -> list[Read]:
    return [Read(0, (1, 0), None, letter.encode(), ()) for letter in text]


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ("abcd", ""),
        ("abcbcd", ""),
        ("abababcdcd", ""),
        ("abc", "1 records are missing, the first b'd'"),
        ("abd", "record 2, b'd', comes before b'c'"),
        ("bacd", "record 0, b'b', comes before b'a'"),
        ("abxcd", "record 2, b'x', is not in the source"),
        ("", "4 records are missing, the first b'a'"),
    ],
)
def test_a_copy_may_repeat_but_not_skip(found: str, fault: str) -> None:
    assert first_disorder(_reads("abcd"), _reads(found)) == fault


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ("abcd", ""),
        ("abccd", "record 3 should be b'd' and is b'c'"),
        ("abcdd", "5 records instead of 4"),
        ("abc", "3 records instead of 4"),
        ("acbd", "record 1 should be b'b' and is b'c'"),
    ],
)
def test_an_exact_copy_has_each_record_once(found: str, fault: str) -> None:
    assert first_difference(_reads("abcd"), _reads(found)) == fault


def test_a_seed_gives_the_kills() -> None:
    kinds = drawn(100, 7)
    assert kinds == drawn(100, 7)
    assert kinds != drawn(100, 8)
    for brokers, weights in WEIGHTS.items():
        assert Counter(drawn(100, 7, brokers)) == weights


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("words", [[], ["--exactly-once"]], ids=["at-least-once", "exactly-once"])
def test_three_kills_of_each_kind_lose_nothing(words: list[str]) -> None:
    command = [sys.executable, "-m", MODULE, "--each", "3", "--seed", "1", *words]
    found = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "18 kills" in found.stdout
    assert "; 0 violations" in found.stdout


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("words", [[], ["--exactly-once"]], ids=["at-least-once", "exactly-once"])
def test_killed_leaders_and_coordinators_of_three_brokers_lose_nothing(words: list[str]) -> None:
    kinds = ["--kind", "source_killed", "--kind", "target_killed", "--kind", "target_transactions_killed"]
    command = [sys.executable, "-m", MODULE, "--brokers", "3", "--seed", "1", *kinds, *words]
    found = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "3 kills" in found.stdout
    assert "; 0 violations" in found.stdout
