"""kafka-consumer-groups: every way to reset offsets, several groups and topics at once, and what --describe shows."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from compat_tests.brokers.topics import create_topic
from compat_tests.clients.client import Sent
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.java_tools.conftest import BrokerTools

HOUR_MS = 3_600_000
RECORDS = 10
"""The times of the records: one an hour, the last one half an hour ago."""

pytestmark = [
    pytest.mark.parametrize("tools_version", ["2.7.2", "4.4.0"], indirect=True),
    pytest.mark.scenario("offset resets", client="kafka-tools-{tools_version}"),
]


class Reset:
    """A topic with records of known times, and groups that have committed 4 in both of its partitions."""

    def __init__(self, tools: BrokerTools, topic: str) -> None:
        self.tools = tools
        self.topic = topic
        self.group = f"group-of-{topic}"
        self.client = ConfluentClient(tools.bootstrap)
        create_topic(tools.bootstrap, topic, 2)
        now_ms = int(time.time() * 1000)
        self.times = [now_ms - (RECORDS - place) * HOUR_MS + HOUR_MS // 2 for place in range(RECORDS)]
        for partition in 0, 1:
            records = [
                Sent(b"%d" % place, timestamp=each, partition=partition) for place, each in enumerate(self.times)
            ]
            self.client.produce(topic, records)
        self.commit(self.group)

    def commit(self, group: str, topic: str | None = None) -> None:
        self.client.commit(group, topic or self.topic, {0: 4, 1: 4})

    def committed(self, group: str | None = None) -> list[int | None]:
        return [self.client.committed(group or self.group, self.topic, partition) for partition in (0, 1)]

    def run(self, *arguments: str) -> str:
        return self.tools.run("ConsumerGroupCommand", "--group", self.group, *arguments)

    def reset(self, *arguments: str) -> list[int | None]:
        self.run("--reset-offsets", *arguments, "--execute")
        return self.committed()


@pytest.fixture
def reset(tools: BrokerTools, topic_name: str) -> Reset:
    return Reset(tools, topic_name)


def moment(time_ms: int, pattern: str) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime(pattern)[:-3]


FORMS: list[tuple[str, Callable[[Reset], list[str]], int]] = [
    ("earliest", lambda _: ["--to-earliest"], 0),
    ("latest", lambda _: ["--to-latest"], RECORDS),
    ("offset", lambda _: ["--to-offset", "7"], 7),
    ("offset beyond the end", lambda _: ["--to-offset", "70"], RECORDS),
    ("offset below the start", lambda _: ["--to-offset", "-7"], 0),
    ("shift back", lambda _: ["--shift-by", "-3"], 1),
    ("shift on", lambda _: ["--shift-by", "3"], 7),
    ("shift too far back", lambda _: ["--shift-by", "-30"], 0),
    ("shift too far", lambda _: ["--shift-by", "30"], RECORDS),
    ("current", lambda _: ["--to-current"], 4),
    ("datetime", lambda it: ["--to-datetime", moment(it.times[6] - 1_000, "%Y-%m-%dT%H:%M:%S.%f")], 6),
    ("datetime after all", lambda _: ["--to-datetime", "2099-01-01T00:00:00.000"], RECORDS),
    ("duration", lambda _: ["--by-duration", "PT3H45M"], 6),
    ("duration before all", lambda _: ["--by-duration", "P30D"], 0),
]


def test_every_form_of_reset(reset: Reset) -> None:
    got = {}
    for name, form, _ in FORMS:
        reset.commit(reset.group)
        got[name] = reset.reset(*form(reset), "--topic", reset.topic)
    assert got == {name: [expected, expected] for name, _, expected in FORMS}


def test_a_plan_is_exported_and_read_from_a_file(reset: Reset, tmp_path: Path) -> None:
    plan = reset.run("--reset-offsets", "--shift-by", "2", "--topic", f"{reset.topic}:0", "--export", "--dry-run")
    assert reset.committed() == [4, 4]
    (line,) = [line for line in plan.splitlines() if reset.topic in line]
    assert line.replace('"', "") == f"{reset.topic},0,6"
    file = tmp_path / "plan.csv"
    file.write_text(f"{line}\n{reset.topic},1,9\n")
    assert reset.reset("--from-file", str(file)) == [6, 9]


def test_several_groups_and_all_topics(reset: Reset, tmp_path: Path) -> None:
    other = f"{reset.group}-other"
    reset.commit(other)
    both = ["--group", other, "--reset-offsets"]
    plan = reset.run(*both, "--all-topics", "--to-earliest", "--export", "--dry-run")
    assert sorted(line.replace('"', "") for line in plan.splitlines() if reset.topic in line) == sorted(
        f"{group},{reset.topic},{partition},0" for group in (reset.group, other) for partition in (0, 1)
    )
    file = tmp_path / "plan.csv"
    file.write_text(plan)
    reset.run(*both, "--from-file", str(file), "--execute")
    assert (reset.committed(), reset.committed(other)) == ([0, 0], [0, 0])
    reset.run("--group", other, "--reset-offsets", "--all-topics", "--to-latest", "--execute")
    assert (reset.committed(), reset.committed(other)) == ([RECORDS] * 2, [RECORDS] * 2)


def test_the_output_of_describe(reset: Reset) -> None:
    """Offsets of a group without members, its state and its (no) members, by themselves and with --verbose."""
    for verbose in [], ["--verbose"]:
        said = reset.tools.attempt("ConsumerGroupCommand", "--group", reset.group, "--describe", *verbose).all
        rows = re.findall(
            rf"^{reset.group}\s+{reset.topic}\s+(\d)\s+(?:-\s+)?4\s+{RECORDS}\s+{RECORDS - 4}\b", said, re.M
        )
        assert sorted(rows) == ["0", "1"], said
        state = reset.run("--describe", "--state", *verbose)
        assert re.search(rf"{reset.group}\s+\S+\s+\(\d+\)\s+.*Empty\s+.*0", state), state
        members = reset.tools.attempt(
            "ConsumerGroupCommand", "--group", reset.group, "--describe", "--members", *verbose
        )
        assert "has no active members" in members.all


def test_several_groups_are_described_and_deleted(reset: Reset) -> None:
    other = f"{reset.group}-other"
    reset.commit(other)
    said = reset.tools.attempt("ConsumerGroupCommand", "--group", other, "--group", reset.group, "--describe").all
    assert len(re.findall(rf"^{reset.group}(?:-other)?\s+{reset.topic}\s+\d", said, re.M)) == 4
    said = reset.run("--delete-offsets", "--topic", f"{reset.topic}:1")
    assert re.search(rf"{reset.topic}\s+1\s+Successful", said)
    assert reset.committed() == [4, None]
    said = reset.tools.run("ConsumerGroupCommand", "--group", other, "--group", reset.group, "--delete")
    assert "successful" in said
    assert (reset.committed(), reset.committed(other)) == ([None, None], [None, None])
