"""The assignors of the consumer protocol compute what Apache Kafka's own classes compute."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from compat_tests.codec.oracle import oracle_command
from harness.cases.assignor_cases import GroupCase, random_rounds, to_answer, to_line

JAVA = Path(__file__).parents[1] / "java"
RELEASE = "4.4.0"
CASES = 24_000


def kafka_answers(cases: Sequence[GroupCase]) -> list[str]:
    command = oracle_command(JAVA / "AssignorOracle.java", RELEASE)
    questions = "".join(f"{to_line(case)}\n" for case in cases)
    run = subprocess.run(command, input=questions, capture_output=True, text=True, timeout=300, check=True)
    return run.stdout.splitlines()


def many_cases(seed: int, count: int) -> list[GroupCase]:
    random = Random(seed)
    cases: list[GroupCase] = []
    while len(cases) < count:
        size = random.choice([3, 3, 8, 30])
        cases += random_rounds(random, random.randint(1, 8), random.randint(1, size), random.choice([3, 12, 40]))
    return cases


@pytest.mark.java
def test_assignments_equal_those_of_kafka() -> None:
    cases = many_cases(1, CASES)
    answers = kafka_answers(cases)
    assert len(answers) == len(cases)
    differing = [case for case, answer in zip(cases, answers, strict=True) if to_answer(case, case.assign()) != answer]
    assert differing == []
