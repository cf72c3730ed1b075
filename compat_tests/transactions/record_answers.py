"""Holds every conversation with Apache Kafka 2.7.2 and keeps the answers.

python -m compat_tests.transactions.record_answers
"""

import json
from pathlib import Path

from compat_tests.groups.wire import Wire
from compat_tests.transactions.conversations import ALL
from compat_tests.transactions.talk import Talk
from harness.real_kafka import RealKafka

ANSWERS = Path(__file__).with_name("answers.json")


def main() -> None:
    found = {}
    with RealKafka("2.7.2") as kafka:
        for name, conversation in ALL.items():
            with Wire(kafka.bootstrap) as wire:
                found[name] = conversation(Talk(wire, name))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(heard)}" for name, heard in found.items())
    ANSWERS.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
