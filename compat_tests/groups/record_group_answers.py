"""Holds the conversations of ``harness/cases/*_cases.py`` about groups with a real Apache Kafka 2.7.2, and
keeps its answers, and the records that it wrote, as JSON.

python -m compat_tests.groups.record_group_answers [records]
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from compat_tests.groups.conversations import NAMES, OLD_PROTOCOL, REFUSED, hold
from harness.cases import RECORDED
from harness.cases.group_cases import connected, make_topics
from harness.cases.stored_group_cases import CONFIGURATIONS, a_life, stored
from harness.real_kafka import RealKafka, ZooKeeper
from harness.wire import Wire

VERSION = "2.7.2"


def answers() -> dict[str, Any]:
    """Every conversation, and those of static members with a protocol that is too old for them."""
    with RealKafka(VERSION) as kafka:
        prepare(kafka)
        found = {name: hold(name, kafka.bootstrap, f"group-{place}") for place, name in enumerate(NAMES)}
    with RealKafka(VERSION, config={"inter.broker.protocol.version": OLD_PROTOCOL}) as kafka:
        prepare(kafka)
        for place, name in enumerate(REFUSED):
            found[f"protocol {OLD_PROTOCOL}: {name}"] = hold(name, kafka.bootstrap, f"group-{place}")
    return found


def records() -> dict[str, Any]:
    """The records in the log after one member's life, by configuration."""
    found = {}
    with ZooKeeper() as zookeeper:
        for place, (name, config) in enumerate(CONFIGURATIONS.items()):
            chroot = {"zookeeper.connect": f"127.0.0.1:{zookeeper.port}/{place}"}
            with RealKafka(VERSION, config={**config, **chroot}, zookeeper=zookeeper) as kafka:
                prepare(kafka)
                with connected(kafka.bootstrap, "some-group") as talk:
                    a_life(talk)
                found[name] = stored(talk, kafka.data)
    return found


def prepare(kafka: RealKafka) -> None:
    """Make the topics that the conversations are about."""
    with Wire(kafka.bootstrap) as wire:
        make_topics(wire)


def write(name: str, found: Mapping[str, Sequence[Any]]) -> None:
    """One line for each answer or batch."""
    parts = []
    for key, entries in found.items():
        lines = ",\n ".join(json.dumps(each) for each in entries)
        parts.append(f"{json.dumps(key)}: [\n {lines}\n]")
    (RECORDED / name).write_text("{\n" + ",\n".join(parts) + "\n}\n")


def main() -> None:
    if "records" not in sys.argv[1:]:
        write("group_answers.json", answers())
    write("group_records.json", records())


if __name__ == "__main__":
    main()
