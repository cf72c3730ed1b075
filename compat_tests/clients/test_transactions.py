"""Transactions: committed records are read, aborted ones are not, and offsets are committed with them."""

import pytest

from compat_tests.clients.client import Client, Transaction, wait_until

pytestmark = pytest.mark.scenario("transactions")

INVALID_PRODUCER_EPOCH, PRODUCER_FENCED = 47, 90
HISTORY = (
    Transaction((b"a", b"b")),
    Transaction((b"c",), commit=False),
    Transaction((b"d",)),
    Transaction((b"e", b"f"), commit=False),
    Transaction((b"g",)),
)


def _values(client: Client, topic: str, count: int, *, committed: bool) -> list[bytes | None]:
    return [each.value for each in client.consume(topic, count, committed=committed)]


def test_commits_and_aborts(client: Client, topic: str) -> None:
    client.transact(topic, f"{topic}-writer", HISTORY)
    assert _values(client, topic, 4, committed=True) == [b"a", b"b", b"d", b"g"]
    assert _values(client, topic, 7, committed=False) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]
    assert client.watermarks(topic) == (0, 12)  # each transaction ends with a marker


def test_another_producer_takes_over(client: Client, topic: str) -> None:
    for history in (HISTORY[:2], HISTORY[2:]):
        client.transact(topic, f"{topic}-writer", history)
    assert _values(client, topic, 4, committed=True) == [b"a", b"b", b"d", b"g"]


def test_a_second_producer_of_the_same_id_fences_the_first(client: Client, topic: str) -> None:
    assert client.fence(topic, f"{topic}-writer") in (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)
    assert _values(client, topic, 1, committed=True) == [b"new"]
    assert _values(client, topic, 2, committed=False) == [b"old", b"new"]
    assert client.watermarks(topic) == (0, 4)


def test_offsets_are_committed_with_the_records(client: Client, topic: str) -> None:
    group = f"{topic}-group"
    client.transact(topic, f"{topic}-writer", [Transaction((b"a",), group=group, offset=1)])
    # A transaction's end is answered before its markers are written, and until then its offsets are nobody's.
    wait_until(lambda: client.committed(group, topic) == 1, "the offset")
    client.transact(topic, f"{topic}-writer", [Transaction((b"b",), commit=False, group=group, offset=2)])
    assert client.committed(group, topic) == 1
    client.transact(topic, f"{topic}-writer", [Transaction((b"c",), group=group, offset=n) for n in (3, 4)])
    wait_until(lambda: client.committed(group, topic) == 4, "the last offset")
    assert _values(client, topic, 3, committed=True) == [b"a", b"c", b"c"]
