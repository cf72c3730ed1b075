"""``kafkapy transactions`` on a running broker."""

import json
from unittest.mock import MagicMock

import pytest
import typer

from kafkapy.cli import output
from kafkapy.cli import transactions as command
from kafkapy.cli.consume import Consumed
from kafkapy.clients import topics, transactions
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError
from kafkapy.clients.records import produce
from kafkapy.coordinator.transaction.records import transaction_record
from kafkapy.coordinator.transaction.transaction import TransactionData
from kafkapy.metadata.topic_rules import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafkapy.records.record import Record, encode_batch
from kafkapy.types import TopicPartition
from tests.cli.conftest import Run
from tests.clients.test_transactions import add_partition, begin


def test_without_transactions_the_list_is_empty(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def topic(_client: ClusterClient, name: str) -> None:
        assert name == TRANSACTION_STATE_TOPIC
        raise RequestFailedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    monkeypatch.setattr(ClusterClient, "topic", topic)
    assert run("transactions", "list").out == "transactional ids: none\n"
    assert run("transactions", "describe", "x").err == "kafkapy: transactional id x does not exist\n"


def test_list_describe_abort(run: Run, bootstrap: str) -> None:
    with ClusterClient(bootstrap) as client:
        producer_id, epoch = begin(client, "t-open", "t-topic")
        transactions.abort(client, "t-idle", 7_000)
    listed = {row["transactional_id"]: row for row in json.loads(run("transactions", "list", "--json").out)}
    assert (listed["t-open"]["state"], listed["t-open"]["partitions"]) == ("Ongoing", 1)
    assert (listed["t-idle"]["state"], listed["t-idle"]["started"]) == ("Empty", None)
    ongoing = json.loads(run("transactions", "list", "--state", "Ongoing", "--json").out)
    assert [row["transactional_id"] for row in ongoing] == ["t-open"]
    described = json.loads(run("transactions", "describe", "t-open", "--json").out)
    assert (described["producer_id"], described["epoch"], described["timeout_ms"]) == (producer_id, epoch, 60_000)
    assert described["partitions"] == ["t-topic-0"]
    assert described["started"] == described["changed"]
    assert "Ongoing" in run("transactions", "describe", "t-open").out
    assert run("transactions", "abort", "t-open", stdin=b"n\n").code == 1
    aborted = run("transactions", "abort", "t-open", "--yes").out
    assert aborted == f"aborted: t-open, its producer id {producer_id} is at epoch {epoch + 2} now\n"
    refused = run("transactions", "abort", "t-open", "--yes")
    assert (refused.code, refused.err) == (1, "kafkapy: t-open has no open transaction: it is in the state Empty\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["describe", "nobody"], "transactional id nobody does not exist"),
        (["abort", "nobody", "--yes"], "transactional id nobody does not exist"),
        (["list", "--state", "Busy"], "'Busy' is no state of a transaction"),
    ],
)
def test_refusals_are_one_line(run: Run, words: list[str], message: str) -> None:
    refused = run("transactions", *words)
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert message in refused.err


def _topic_of(*records: Record) -> type:
    """In place of the command's consumer: ``__transaction_state`` holds these records."""

    class Topic:
        remaining = 1

        def __init__(self, *_: object) -> None:
            pass

        def seek(self, *_: object, **__: object) -> None:
            pass

        def poll(self, *, wait_ms: int) -> object:
            self.remaining = 0
            assert wait_ms > 0
            return [Consumed(TRANSACTION_STATE_TOPIC, 0, each) for each in records]

    return Topic


def test_expired_ids_and_records_of_later_releases_are_left_out(
    run: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ClusterClient(bootstrap) as client:
        begin(client, "t-any", "t-any-topic")  # the first transaction creates the topic
    kept, gone = (transaction_record(name, TransactionData(1, 0, 1), 0) for name in ("t-kept", "t-gone"))
    records = [kept, gone, gone._replace(value=None), kept._replace(key=b"\0\x09", value=b"?")]

    monkeypatch.setattr(command, "Consumer", _topic_of(*records))
    assert [row["transactional_id"] for row in json.loads(run("transactions", "list", "--json").out)] == ["t-kept"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (bytes([0, 2, *range(60)]), "TransactionLogValue has no version 2"),
        (b"\0\0\0", "bytes wanted"),
        (bytes([*range(2), *bytes(14), 99, *bytes(60)]), "transaction state 99"),
    ],
    ids=["version", "cut off", "state"],
)
def test_what_cannot_be_decoded_is_reported_and_nothing_is_called_hanging(
    run: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch, value: bytes, reason: str
) -> None:
    topic = f"t-unread-{len(value)}-{value[16:17].hex()}"
    with ClusterClient(bootstrap) as client:
        begin(client, topic, f"{topic}-begun")  # the first transaction creates the topic
        _write_unknown(client, topic, 66_000)
    unread = transaction_record("t-later", TransactionData(66_000, 0, 1), 0)._replace(value=value, offset=7)
    monkeypatch.setattr(command, "Consumer", _topic_of(unread))
    for words in (["list"], ["find-hanging", "--topic", topic]):
        refused = run("transactions", *words)
        assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
        assert refused.err.startswith("kafkapy: __transaction_state-0, offset 7 can't be decoded")
        assert reason in refused.err
    with ClusterClient(bootstrap) as client:
        topics.delete_topic(client, topic)


def test_another_error_of_the_topic_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def topic(*_: object) -> None:
        raise RequestFailedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    monkeypatch.setattr(ClusterClient, "topic", topic)
    assert "TOPIC_AUTHORIZATION_FAILED" in run("transactions", "list").err


def _write_unknown(client: ClusterClient, topic: str, producer_id: int, producer_epoch: int = 4) -> None:
    """A transactional batch without AddPartitionsToTxn, in a new topic."""
    topics.create_topic(client, topic, configs={})
    _append_unknown(client, topic, producer_id, producer_epoch)


def _append_unknown(client: ClusterClient, topic: str, producer_id: int, producer_epoch: int = 4) -> None:
    fields = {"producer_id": producer_id, "producer_epoch": producer_epoch, "base_sequence": 0}
    batch = encode_batch([Record(b"k", b"v", 1_000)], is_transactional=True, **fields)  # type: ignore[arg-type]  # numbers
    written = TopicProduceData(topic, partition_data=[PartitionProduceData(0, memoryview(batch))])
    leader = client.topic(topic).partitions[0].leader_id
    answer = client.node(leader).call(ProduceRequest("nobody", -1, 10_000, [written]), ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0


def _append_plain(client: ClusterClient, topic: str) -> None:
    leader = client.topic(topic).partitions[0].leader_id
    produce(client, topic, 0, encode_batch([Record(b"k", b"v", 1_000)]), acks=-1, leader=leader)


def _delete_records(client: ClusterClient, topic: str, before: int) -> None:
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, before)])], 5_000)
    answer = client.node(client.topic(topic).partitions[0].leader_id).call(request, DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].error_code == 0


def test_a_transaction_that_no_coordinator_knows_is_found_and_ended(run: Run, bootstrap: str) -> None:
    with ClusterClient(bootstrap) as client:
        _write_unknown(client, "t-hangs", 77_000)
        begin(client, "t-fine", "t-fine-topic")
    (found,) = json.loads(run("transactions", "find-hanging", "--json").out)
    assert found == {
        "topic": "t-hangs",
        "partition": 0,
        "start_offset": 0,
        "producer_id": 77_000,
        "epoch": 4,
        "written": "1970-01-01T00:00:01.000+00:00",
        "transactional_id": None,
    }
    assert run("transactions", "find-hanging", "--topic", "t-fine-topic").out == "hanging transactions: none\n"
    here = ["transactions", "abort-hanging", "--topic", "t-hangs", "--partition", "0", "--start-offset"]
    refused = run(*here, "1", "--yes")
    expected = "kafkapy: no hanging transaction begins at offset 1 of t-hangs-0: see find-hanging\n"
    assert (refused.code, refused.err) == (1, expected)
    missing = run("transactions", "abort-hanging", "--topic", "t-hangs", "--partition", "9", "--start-offset", "0")
    assert (missing.code, missing.err) == (1, "kafkapy: topic t-hangs has no partition 9\n")
    assert run(*here, "0", stdin=b"n\n").code == 1
    assert run(*here, "0", "--yes").out == "aborted: the transaction at offset 0 of t-hangs-0\n"
    assert json.loads(run("transactions", "find-hanging", "--json").out) == []


def test_the_search_shows_its_progress_on_a_terminal(run: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ClusterClient(bootstrap) as client:
        begin(client, "t-seen", "t-seen-topic")
        _write_unknown(client, "t-searched", 78_000)
        count = len(client.metadata().topics)
    monkeypatch.setattr(output, "shows_progress", lambda: True)
    bar = MagicMock()
    monkeypatch.setattr(output, "progress", lambda: bar)
    here = ["--topic", "t-searched", "--partition", "0", "--start-offset", "0"]
    assert len(json.loads(run("transactions", "find-hanging", "--json").out)) == 1
    shown = bar.__enter__()
    totals = [call.kwargs["total"] for call in shown.add_task.call_args_list]
    assert totals[0] == count, "all topics, then the records of the coordinators, then the topic with a suspect, twice"
    assert totals[2:] == [1, 1]
    updates = [(call.kwargs["description"], call.kwargs["completed"]) for call in shown.update.call_args_list]
    assert [done for doing, done in updates[:count]] == [*range(count)]
    assert updates[count] == (f"reading {TRANSACTION_STATE_TOPIC}", 0)
    assert updates[-2:] == [("looking at t-searched", 0), ("reading t-searched-0", 0)]
    assert run("transactions", "abort-hanging", *here, "--yes").code == 0


def test_progress_is_on_standard_error_and_only_on_a_terminal(
    run: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ClusterClient(bootstrap) as client:
        begin(client, "t-quiet", "t-quiet-topic")
    quiet = run("transactions", "find-hanging")
    assert (quiet.out, quiet.err) == ("hanging transactions: none\n", "")
    monkeypatch.setattr(output, "shows_progress", lambda: True)
    assert run("transactions", "find-hanging").out == "hanging transactions: none\n"


def test_hanging_is_found_before_the_first_transaction_and_leaderless_partitions_are_named(
    run: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ClusterClient(bootstrap) as client:
        _write_unknown(client, "t-early", 88_000)
    whole = ClusterClient.metadata

    def metadata(client: ClusterClient, names: object = None, **options: bool) -> object:
        if names is not None and TRANSACTION_STATE_TOPIC in list(names):  # type: ignore[call-overload]
            raise RequestFailedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        found = whole(client, names, **options)  # type: ignore[arg-type]
        for topic in found.topics:
            if topic.name != "t-early":
                topic.partitions[0].leader_id = -1
        return found

    monkeypatch.setattr(ClusterClient, "metadata", metadata)
    found = run("transactions", "find-hanging", "--json")
    assert [(each["topic"], each["transactional_id"]) for each in json.loads(found.out)] == [("t-early", None)]
    assert "kafkapy: not looked at, since they have no leader: " in found.err
    here = ["--topic", "t-early", "--partition", "0", "--start-offset", "0", "--yes"]
    assert run("transactions", "abort-hanging", *here).code == 0


def test_a_transaction_that_begins_before_the_answer_is_not_aborted(
    run: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ClusterClient(bootstrap) as client:
        producer = transactions.abort(client, "t-asked", 60_000)
        _write_unknown(client, "t-asked-topic", *producer)

        def confirm(*_: object, **__: object) -> None:
            add_partition(client, "t-asked", producer, "t-asked-topic")

        monkeypatch.setattr(typer, "confirm", confirm)
        refused = run("transactions", "abort-hanging", "-t", "t-asked-topic", "-p", "0", "--start-offset", "0")
    assert (refused.code, refused.out) == (1, "")
    assert "no hanging transaction begins at offset 0 of t-asked-topic-0" in refused.err


def test_a_transaction_whose_start_is_deleted_is_told_of_and_no_other_is_blamed(run: Run, bootstrap: str) -> None:
    with ClusterClient(bootstrap) as client:
        _write_unknown(client, "t-cut", 55_000)
        _append_unknown(client, "t-cut", 55_001)
        ended = transactions.OldestOpenTransaction(TopicPartition("t-cut", 0), 1, 55_001, 4, 1_000)
        transactions.end_hanging(client, ended, 4, 0)
        _append_plain(client, "t-cut")
        for log_start in (1, 3):  # a batch of the transaction that has ended, a batch of none
            _delete_records(client, "t-cut", log_start)
            found = run("transactions", "find-hanging", "--topic", "t-cut", "--json")
            assert (found.code, json.loads(found.out)) == (0, [])
            assert "kafkapy: t-cut-0: a transaction is open whose first records are deleted" in found.err
            here = ["-t", "t-cut", "-p", "0", "--start-offset", str(log_start), "--yes"]
            assert run("transactions", "abort-hanging", *here).code == 1


def test_a_hanging_transaction_at_the_log_start_is_found_and_ended(run: Run, bootstrap: str) -> None:
    with ClusterClient(bootstrap) as client:
        topics.create_topic(client, "t-purged", configs={})
        _append_plain(client, "t-purged")
        _append_unknown(client, "t-purged", 56_000)
        _append_plain(client, "t-purged")
        _delete_records(client, "t-purged", 1)
    (found,) = json.loads(run("transactions", "find-hanging", "--topic", "t-purged", "--json").out)
    assert (found["start_offset"], found["producer_id"]) == (1, 56_000)
    here = ["-t", "t-purged", "-p", "0", "--start-offset", "1", "--yes"]
    assert run("transactions", "abort-hanging", *here).code == 0
    assert run("transactions", "find-hanging", "--topic", "t-purged").out == "hanging transactions: none\n"
