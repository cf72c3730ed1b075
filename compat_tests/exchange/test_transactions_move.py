"""Directories with transactions that move between Apache Kafka 2.7.2 and kafkapy: commits and aborts stay."""

from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.clients.java_tools.tools import ToolsOf
from compat_tests.exchange.contents import QUIET, Contents, committed, read_all
from compat_tests.exchange.dumped import nothing_is_wrong
from compat_tests.exchange.home import Home
from harness.jars import VERSIONS

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

TOPIC = "ledger-1.0-2"
PARTITIONS = 2
STEADY = "billing"
GROUP = "orders-group"
"""Java's hashes of these two are negative, those of the other names positive."""
LEFT = "left \U0001f642/%日本"
OPEN_GROUP = "auditors"
"""A group whose offsets are unstable while a transaction commits some."""


def _producer(home: Home, transactional_id: str | None = None) -> Producer:
    settings: dict[str, object] = {"bootstrap.servers": home.bootstrap, "enable.idempotence": True, "linger.ms": 2}
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    return Producer({**settings, "reconnect.backoff.max.ms": 200, **QUIET})


def _write(producer: Producer, what: str, count: int = 8) -> None:
    for number in range(count):
        producer.produce(TOPIC, f"{what} {number}".encode() * 20, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def _transact(home: Home, producer: Producer, what: str, *, offset: int | None = None, commit: bool = True) -> None:
    """One transaction with records in both partitions and an offset of a group."""
    producer.begin_transaction()
    _write(producer, what)
    if offset is not None:
        _send_offset(home, producer, offset)
    (producer.commit_transaction if commit else producer.abort_transaction)(30)


def _send_offset(home: Home, producer: Producer, offset: int, group: str = GROUP) -> None:
    consumer = Consumer({"bootstrap.servers": home.bootstrap, "group.id": group, **QUIET})
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, offset)], metadata, 30)
    consumer.close()


def _values(contents: Contents) -> set[bytes]:
    return {record.value or b"" for records in contents.values() for record in records}


def _seen(home: Home) -> dict[str, object]:
    return {
        "all": read_all(home.bootstrap),
        "committed": read_all(home.bootstrap, committed=True),
        "offsets": committed(home.bootstrap, GROUP),
    }


def _create(home: Home) -> None:
    admin = kafka_admin.AdminClient({"bootstrap.servers": home.bootstrap, **QUIET})
    admin.create_topics([kafka_admin.NewTopic(TOPIC, PARTITIONS, 1, config={"segment.bytes": "4096"})])[TOPIC].result()


def _begun(home: Home) -> tuple[Producer, Producer, Producer]:
    """Three producers: without transactions, with twelve ended ones, and with its first one open."""
    plain, steady, left = _producer(home), _producer(home, STEADY), _producer(home, LEFT)
    steady.init_transactions(30)
    for number in range(12):
        _transact(home, steady, f"steady {number}", offset=number, commit=number % 3 != 2)
        _write(plain, f"plain {number}", 2)
    left.init_transactions(30)
    left.begin_transaction()
    return plain, steady, left


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_transactions_are_read_as_kafka_reads_them(home: Home, kill: bool, tools_of: ToolsOf) -> None:
    home.start(home.theirs)
    _create(home)
    consumer = Consumer({"bootstrap.servers": home.bootstrap, "group.id": GROUP, **QUIET})
    consumer.commit(offsets=[TopicPartition(TOPIC, 1, 3)], asynchronous=False)
    consumer.close()
    plain, steady, left = _begun(home)
    _write(left, "left open")
    _write(plain, "behind the open one")
    before = _seen(home)
    assert before["offsets"] == {(TOPIC, 0): (10, None), (TOPIC, 1): (3, None)}

    home.to_kafkapy(kill=kill)
    assert _seen(home) == before
    visible = _values(read_all(home.bootstrap, committed=True))
    assert b"steady 10 0" * 20 in visible
    for hidden in (b"steady 11 0", b"left open 0", b"behind the open one 0"):
        assert hidden * 20 not in visible
    _write(plain, "while kafkapy was there")
    assert read_all(home.bootstrap, committed=True) == before["committed"]
    before = _seen(home)

    home.to_kafka(kill=kill)
    assert _seen(home) == before
    # Offsets in a transaction come from a fresh producer: librdkafka 2.16 may never send the second part of
    # send_offsets_to_transaction once its broker was restarted, whichever broker it was and is.
    _transact(home, steady, "steady again")
    successor = _producer(home, LEFT)
    successor.init_transactions(30)  # ends what its predecessor left open
    _transact(home, successor, "by the successor", offset=77)
    before = _seen(home)
    visible = _values(read_all(home.bootstrap, committed=True))
    for shown in (b"behind the open one 0", b"while kafkapy was there 0", b"steady again 0"):
        assert shown * 20 in visible
    assert b"left open 0" * 20 not in visible

    home.to_kafkapy(kill=kill)
    assert _seen(home) == before
    assert committed(home.bootstrap, GROUP) == {(TOPIC, 0): (77, None), (TOPIC, 1): (3, None)}
    home.leave(kill=kill)
    assert list(home.data[0].glob("*/*.txnindex")) + list(home.data[1].glob("*/*.txnindex"))
    if not kill:  # a crash may leave files that the next start repairs
        nothing_is_wrong(home.data, tools_of, VERSIONS)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_kafkapys_transactions_are_read_and_ended_by_kafka(home: Home, kill: bool, tools_of: ToolsOf) -> None:
    """Producers go on across the move with their ids and epochs; what kafkapy left open Kafka ends, and the reverse."""
    home.start(home.ours)
    _create(home)
    plain, steady, left = _begun(home)
    _write(left, "left open by kafkapy")
    _send_offset(home, left, 99, OPEN_GROUP)
    _write(plain, "behind the open one")
    before = _seen(home)
    assert before["offsets"] == {(TOPIC, 0): (10, None)}

    home.to_kafka(kill=kill)
    assert _seen(home) == before
    _transact(home, steady, "steady at Kafka")
    heir = _producer(home, STEADY)  # librdkafka may hang when it sends offsets to a coordinator that has moved
    heir.init_transactions(30)
    _transact(home, heir, "the heir at Kafka", offset=50)
    assert _seen(home)["offsets"] == {(TOPIC, 0): (50, None)}
    left.commit_transaction(30)  # begun there, committed here
    visible = _values(read_all(home.bootstrap, committed=True))
    for shown in (b"left open by kafkapy 0", b"behind the open one 0", b"steady at Kafka 0", b"steady 10 0"):
        assert shown * 20 in visible
    assert b"steady 11 0" * 20 not in visible
    assert committed(home.bootstrap, OPEN_GROUP) == {(TOPIC, 0): (99, None)}
    leaving = _producer(home, LEFT)
    leaving.init_transactions(30)
    leaving.begin_transaction()
    _write(leaving, "left open by Kafka")
    _send_offset(home, leaving, 77, OPEN_GROUP)
    before = _seen(home)

    home.to_kafkapy(kill=kill)
    assert _seen(home) == before
    successor = _producer(home, LEFT)
    successor.init_transactions(30)
    _transact(home, successor, "by the successor")
    _transact(home, heir, "the heir again", commit=False)
    _transact(home, successor, "with an offset", offset=51, commit=False)
    visible = _values(read_all(home.bootstrap, committed=True))
    assert b"left open by Kafka 0" * 20 not in visible
    assert b"by the successor 0" * 20 in visible
    assert b"the heir again 0" * 20 not in visible
    assert committed(home.bootstrap, GROUP) == {(TOPIC, 0): (50, None)}
    assert committed(home.bootstrap, OPEN_GROUP) == {(TOPIC, 0): (99, None)}
    home.leave(kill=kill)
    if not kill:  # a crash may leave files that the next start repairs
        nothing_is_wrong(home.data, tools_of, VERSIONS)
