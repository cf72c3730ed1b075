"""Holds the conversations with groups of both protocols with a real Apache Kafka 4.4.0, and keeps its answers.

python -m compat_tests.groups.record_migration_answers
"""

from collections.abc import Iterable, Mapping
from typing import Any

from compat_tests.groups.record_group_answers import prepare, write
from harness.cases.consumer_group_cases import AT_ONCE
from harness.cases.migration_cases import CONVERSATIONS, POLICIES, POLICY, hold
from harness.real_kafka import RealKafka

VERSION = "4.4.0"


def main() -> None:
    found = answers(AT_ONCE, CONVERSATIONS)
    for policy in POLICIES:
        found |= answers({**AT_ONCE, POLICY: policy}, [policy])
    write("migration_answers.json", found)


def answers(config: Mapping[str, str], names: Iterable[str]) -> dict[str, Any]:
    """The transcripts of the named conversations with a broker that has these keys."""
    with RealKafka(VERSION, config=config) as kafka:
        prepare(kafka)
        return {name: hold(name, kafka.bootstrap, f"group-{place}") for place, name in enumerate(names)}


if __name__ == "__main__":
    main()
