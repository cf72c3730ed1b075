"""Random decisions beside ``kafka.security.authorizer.AclAuthorizer`` of Apache Kafka 2.7.2, on a real ZooKeeper."""

import random
import subprocess
from pathlib import Path
from typing import Final

import pytest

from harness.java_programs import MissingToolchainError, java_command
from harness.real_kafka import ZooKeeper
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.security.acls import AclEntry, ResourcePattern
from kafkapy.security.authorizer import AclAuthorizer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

ORACLE: Final = Path(__file__).parents[1] / "java" / "AclOracle.java"
SETS, QUESTIONS = 60, 150
TYPES: Final = [each for each in AclResourceType if each is not AclResourceType.ANY]
OPERATIONS: Final = [each for each in AclOperation if AclOperation.ANY < each < AclOperation.CREATE_TOKENS]
"""Those that 2.7.2 knows."""
NAMES: Final = ["a", "ab", "abc", "abd", "b", "b:c", "ü", "*"]
PRINCIPALS: Final = ["User:a", "User:b", "User:*", "Group:a", "User:a:b", "User:CN=x,O=y", "User:super"]
HOSTS: Final = ["127.0.0.1", "10.0.0.1", "0:0:0:0:0:0:0:1"]


@pytest.mark.parametrize("allows_without_entries", [False, True])
def test_decisions_are_those_of_apache_kafka(allows_without_entries: bool, zookeeper: ZooKeeper) -> None:
    try:
        command = java_command("AclOracle", [ORACLE], "2.7.2")
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    draw = random.Random(11)
    lines: list[str] = []
    mine: list[bool] = []
    for _ in range(SETS):
        authorizer = AclAuthorizer(["User:super"], allows_without_entries=allows_without_entries)
        lines.append("clear")
        for pattern, entries in _random_acls(draw).items():
            authorizer.replace(pattern, entries)
            lines += [
                _line("add", pattern.resource_type, pattern.pattern_type, pattern.name, *each) for each in entries
            ]
        lines.append("apply")
        for _ in range(QUESTIONS):
            question = (
                draw.choice(PRINCIPALS),
                draw.choice(HOSTS),
                draw.choice(OPERATIONS),
                draw.choice(TYPES[:2]),
                draw.choice(NAMES),
            )
            mine.append(authorizer.allows(*question))
            lines.append(_line("ask", *question))
    arguments = [zookeeper.bootstrap, "User:super", str(allows_without_entries).lower()]
    text = "\n".join(lines)
    run = subprocess.run([*command, *arguments], input=text, capture_output=True, text=True, timeout=250, check=True)
    theirs = [line == "true" for line in run.stdout.split()]
    assert len(theirs) == SETS * QUESTIONS
    assert 0.1 < sum(mine) / len(mine) < 0.9
    assert mine == theirs


def _random_acls(draw: random.Random) -> dict[ResourcePattern, list[AclEntry]]:
    acls: dict[ResourcePattern, list[AclEntry]] = {}
    for _ in range(draw.choice((0, 1, 3, 10, 30))):
        kind = draw.choice((AclPatternType.LITERAL, AclPatternType.PREFIXED))
        pattern = ResourcePattern(draw.choice(TYPES[:2]), draw.choice(NAMES), kind)
        permission = AclPermissionType.DENY if draw.random() < 0.2 else AclPermissionType.ALLOW
        host = draw.choice([*HOSTS, "*", "*", "*"])
        entry = AclEntry(draw.choice(PRINCIPALS), host, draw.choice(OPERATIONS), permission)
        if entry not in acls.setdefault(pattern, []):
            acls[pattern].append(entry)
    return acls


def _line(*fields: object) -> str:
    return "\t".join(str(int(each)) if isinstance(each, int) else str(each) for each in fields)
