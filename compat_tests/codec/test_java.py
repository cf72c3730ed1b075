"""Random messages of all generated classes and versions give the same bytes as the classes that Kafka generates."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from compat_tests.codec.oracle import Oracle, definitions, identity
from compat_tests.codec.random_messages import Definitions, json_form
from harness.definitions.files import load_all
from harness.definitions.merge import KNOWN_CONFLICTS
from harness.definitions.model import Message
from kafkapy.protocol.primitives import decode, encode

pytestmark = [pytest.mark.java, pytest.mark.slow]

RELEASES = ["2.7.2", "3.9.1", "4.4.0"]
DEFINITIONS = Definitions()
EXAMPLES = 4
DROPS_UNKNOWN_TAGS = {("2.7.2", "FetchResponse")}
"""Its records go to a socket alone; the form that goes to memory forgets tagged fields that it doesn't know."""


@pytest.fixture(scope="module", params=RELEASES)
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle(request.param) as running:
        yield running


@pytest.fixture(scope="module")
def theirs(oracle: Oracle) -> dict[tuple[str, object], Message]:
    return definitions(oracle.release)


def shared_versions(ours: Message, other: Message | None, release: str) -> list[int]:
    """The versions that both know, but for those where the releases contradict each other."""
    if other is None:
        return []
    both = ours.versions.intersect(other.versions)
    conflicts = {version for name, version in KNOWN_CONFLICTS if name == ours.name} if release != "3.9.1" else set()
    return [version for version in range(both.low, both.high + 1) if version not in conflicts]


@pytest.mark.parametrize("name", sorted(DEFINITIONS.messages))
def test_same_bytes_as_java(name: str, oracle: Oracle, theirs: dict[tuple[str, object], Message]) -> None:
    ours = DEFINITIONS.messages[name]
    other = theirs.get(identity(ours))
    for version in shared_versions(ours, other, oracle.release):
        assert other is not None
        check(oracle, ours, other, version)


def check(oracle: Oracle, ours: Message, other: Message, version: int) -> None:
    """One message in one version: random values with and without unknown tagged fields."""
    struct = DEFINITIONS.class_of(ours)
    known_tags = DEFINITIONS.strategy(ours, version, unknown_tags=False, known_to=other)
    drops = (oracle.release, ours.name) in DROPS_UNKNOWN_TAGS
    any_tags = known_tags if drops else DEFINITIONS.strategy(ours, version)

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(known_tags)
    def same_values(message: object) -> None:
        assert isinstance(message, struct)
        data = encode(message, version)
        form = json.dumps(json_form(ours, other, message, version))
        assert oracle.encode(other, version, form) == data
        assert encode(decode(struct, data, version), version) == data

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(any_tags)
    def same_bytes(message: object) -> None:
        assert isinstance(message, struct)
        data = encode(message, version)
        assert oracle.again(other, version, data) == data
        assert encode(decode(struct, data, version), version) == data

    same_values()
    same_bytes()


def test_every_message_of_the_release_is_there(oracle: Oracle, theirs: dict[tuple[str, object], Message]) -> None:
    """The definitions are those of all messages, generated or not."""
    ours = {identity(message) for message in load_all().values()}
    aliases = {("data", "LeaderChangeMessage")}
    missing = {key for key in theirs if key not in ours} - aliases
    assert not missing
