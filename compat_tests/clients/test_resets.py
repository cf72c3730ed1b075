"""The first position of a group's member: without an offset, with one whose record was removed, and at a time."""

import pytest

from compat_tests.clients.client import START_MS, Client, Sent, wait_until
from compat_tests.clients.conftest import WITH_BOTH_PROTOCOLS

pytestmark = [pytest.mark.scenario("offset resets"), WITH_BOTH_PROTOCOLS]


@pytest.fixture
def filled(client: Client, topic: str) -> str:
    """A topic with ten records, a second apart."""
    client.produce(topic, [Sent(b"%d" % i, timestamp=START_MS + 1000 * i) for i in range(10)])
    return topic


def test_latest_begins_with_later_records(client: Client, filled: str) -> None:
    member = client.join(f"group-of-{filled}", filled, "latest")
    try:
        wait_until(lambda: member.assignment == {0}, "the assignment")

        def something_came() -> bool:  # the first ones may come before the member knows where it begins
            client.produce(filled, [Sent(b"young")])
            return bool(member.received)

        wait_until(something_came, "a young record")
        assert {record.value for record in member.received} == {b"young"}
    finally:
        member.close()


def test_none_reports_the_missing_offset(client: Client, filled: str) -> None:
    member = client.join(f"group-of-{filled}", filled, "none")
    try:
        wait_until(lambda: member.error is not None, "the error")
        assert not member.received
    finally:
        member.close()


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_committed_offset_out_of_range_is_reset(client: Client, filled: str, reset: str) -> None:
    group = f"group-of-{filled}"
    client.commit(group, filled, {0: 2})
    assert client.delete_records(filled, 5) == 5
    member = client.join(group, filled, reset)
    try:
        wait_until(lambda: member.assignment == {0}, "the assignment")

        def the_young_one_came() -> bool:
            client.produce(filled, [Sent(b"young")])
            return any(record.value == b"young" for record in member.received)

        wait_until(the_young_one_came, "a young record")
        assert member.received[0].value == (b"5" if reset == "earliest" else b"young")
    finally:
        member.close()


def test_a_committed_offset_has_precedence_over_the_reset(client: Client, filled: str) -> None:
    group = f"group-of-{filled}"
    client.commit(group, filled, {0: 7})
    member = client.join(group, filled, "latest")
    try:
        wait_until(lambda: len(member.received) == 3, "three records")
        assert [record.value for record in member.received] == [b"7", b"8", b"9"]
    finally:
        member.close()


def test_reading_begins_at_a_point_of_time(client: Client, filled: str) -> None:
    offset = client.offset_for_time(filled, START_MS + 5500)
    assert offset is not None
    assert [record.timestamp for record in client.consume(filled, 4, offset=offset)] == [
        START_MS + 1000 * i for i in range(6, 10)
    ]
