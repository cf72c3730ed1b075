"""Holds the conversations with groups of both protocols with a real Apache Kafka 4.4.0, and keeps its answers.

python -m compat_tests.groups.record_migration_answers
"""

from compat_tests.groups.record_consumer_group_answers import answers
from compat_tests.groups.record_group_answers import write
from harness.cases.consumer_group_cases import AT_ONCE
from harness.cases.migration_cases import CONVERSATIONS, POLICIES, POLICY


def main() -> None:
    found = answers(AT_ONCE, CONVERSATIONS)
    for policy in POLICIES:
        found |= answers({**AT_ONCE, POLICY: policy}, [policy])
    write("migration_answers.json", found)


if __name__ == "__main__":
    main()
