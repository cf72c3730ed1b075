"""Histories of coordinators under seeds: some of them here, thousands with ``make simulate``."""

import logging
import os

import pytest

from tests.simulation.coordinators.broken import RULES
from tests.simulation.coordinators.campaign import KINDS, RULE_SEEDS, first_problem, play, shortest, tell

HISTORIES = int(os.environ.get("KAFKAPY_SIMULATIONS", "60"))


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="kafkapy")


@pytest.mark.parametrize("kind", KINDS)
def test_histories_keep_the_laws(kind: str) -> None:
    assert first_problem(kind, range(HISTORIES)) is None


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    assert first_problem(RULES[rule].kind, range(RULE_SEEDS), rule) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_is_the_same_history_again(kind: str) -> None:
    assert play(kind, 7) == play(kind, 7) != play(kind, 8)


def test_a_failing_history_is_shortened_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rule = "hands-over-at-once"
    found = first_problem("group", range(RULE_SEEDS), rule)
    assert found is not None
    seed, _ = found
    steps = shortest("group", seed, rule)
    assert play("group", seed, rule, steps)[0]
    tell("group", seed, rule)
    told = capsys.readouterr().out
    assert f"seed {seed}: Violation" in told
    assert f"{len(steps)} steps" in told
