"""Keeps some random groups with the assignments of Apache Kafka 4.4.0, for the tests that have no Java.

python -m compat_tests.groups.record_assignments
"""

from compat_tests.groups.test_assignors import kafka_answers, many_cases
from harness.cases import RECORDED
from harness.cases.assignor_cases import to_line

COUNT = 150
SEED = 848


def main() -> None:
    cases = many_cases(SEED, COUNT)
    lines = [line for case, answer in zip(cases, kafka_answers(cases), strict=True) for line in (to_line(case), answer)]
    (RECORDED / "assignments.txt").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
