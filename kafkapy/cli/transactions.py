"""``kafkapy transactions``: shows the contents of ``__transaction_state``, and aborts open transactions.

Kafka 2.7 has no API that shows transactions, so the command reads the records of the topic, as any consumer may; a
coordinator writes each change there before it answers.

A *hanging* transaction is open in a partition and unknown to its coordinator: a record was written after the abort of
its transaction (KAFKA-12671), or without AddPartitionsToTxn. No time-out ends it (KIP-664). It is found in this order:
the open transactions of the partition, the transactions of the coordinators, and again the open ones of the partition.
A transaction that began after the first look is in its coordinator's list, and one that ended before the second is not
open any more.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple

import typer

from kafkapy.cli.connect import connect
from kafkapy.cli.consume import WAIT_MS, Consumer
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes
from kafkapy.cli.output import done, examples, fail, failures_in_one_line, say, show, steps_progress
from kafkapy.clients import transactions as client_transactions
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError, RequestFailedError
from kafkapy.clients.transactions import OldestOpenTransaction
from kafkapy.coordinator.transaction.records import UnknownTransactionStateError, decode_key, decode_value
from kafkapy.coordinator.transaction.states import ONGOING, PREPARED, STATE_NAMES
from kafkapy.coordinator.transaction.transaction import TransactionData
from kafkapy.java_hashing import partition_for
from kafkapy.metadata.topic_rules import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.metadata import MetadataResponseTopic
from kafkapy.protocol.primitives import ProtocolError
from kafkapy.types import NO_TIMESTAMP, TopicPartition

app = typer.Typer(no_args_is_help=True)

_UNFINISHED: Final = PREPARED | {ONGOING}
_CUT: Final = (
    "a transaction is open whose first records are deleted, so that its producer is not known; "
    "`kafkapy log dump` of a .snapshot file of the partition may show it"
)

Id = Annotated[str, typer.Argument(metavar="ID", help="A transactional id.")]


@app.command("list", epilog=examples("kafkapy transactions list", "kafkapy transactions list --state Ongoing --json"))
def list_(
    state: Annotated[
        str | None, typer.Option("--state", "-s", help=f"Only ids in this state: {', '.join(STATE_NAMES[:6])}.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """List the transactional ids and the states of their last transactions."""
    if state is not None and state not in STATE_NAMES:
        fail(f"{state!r} is no state of a transaction: write one of {', '.join(STATE_NAMES[:6])}")
    with failures_in_one_line(), connect(bootstrap) as client:
        found = _read(client)
    rows = [
        {
            "transactional_id": name,
            "state": STATE_NAMES[data.state],
            "producer_id": data.producer_id,
            "epoch": data.producer_epoch,
            "partitions": len(data.partitions),
            "started": _time(data.start_ms),
        }
        for name, data in sorted(found.items())
        if state is None or STATE_NAMES[data.state] == state
    ]
    show(rows, as_json=as_json, title="transactional ids")


@app.command(epilog=examples("kafkapy transactions describe etl-1", "kafkapy transactions describe etl-1 --json"))
def describe(transactional_id: Id, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: Json = False) -> None:
    """Show one transactional id: its producer, its transaction, and the transaction's partitions."""
    with failures_in_one_line(), connect(bootstrap) as client:
        data = _read_one(client, transactional_id)
    facts: dict[str, Any] = {
        "transactional_id": transactional_id,
        "state": STATE_NAMES[data.state],
        "producer_id": data.producer_id,
        "epoch": data.producer_epoch,
        "timeout_ms": data.timeout_ms,
        "started": _time(data.start_ms),
        "changed": _time(data.last_update_ms),
        "partitions": [str(each) for each in data.partitions],
    }
    if as_json:
        done("", as_json=True, **facts)
    else:
        show([facts], as_json=False)


@app.command(epilog=examples("kafkapy transactions abort etl-1", "kafkapy transactions abort etl-1 --yes"))
def abort(
    transactional_id: Id, yes: Yes = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: Json = False
) -> None:
    """Abort an open transaction and fence its producer, as a new producer with the same id would."""
    with failures_in_one_line(), connect(bootstrap) as client:
        data = _read_one(client, transactional_id)
        if data.state is not ONGOING:
            fail(f"{transactional_id} has no open transaction: it is in the state {STATE_NAMES[data.state]}")
        if not yes:
            typer.confirm(f"Abort the transaction of {transactional_id} and fence its producer?", abort=True, err=True)
        producer_id, epoch = client_transactions.abort(client, transactional_id, data.timeout_ms)
    done(
        f"aborted: {transactional_id}, its producer id {producer_id} is at epoch {epoch} now",
        as_json=as_json,
        aborted=transactional_id,
        producer_id=producer_id,
        epoch=epoch,
    )


@app.command(
    epilog=examples("kafkapy transactions find-hanging", "kafkapy transactions find-hanging --topic orders --json")
)
def find_hanging(
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only the partitions of this topic.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """List open transactions that no coordinator knows: nothing but abort-hanging ends them."""
    with failures_in_one_line(), connect(bootstrap) as client:
        found = _hanging(client, client.metadata().topics if topic is None else [client.topic(topic, led=False)])
    rows = [
        {
            "topic": each.open.partition.topic,
            "partition": each.open.partition.partition,
            "start_offset": each.open.start_offset,
            "producer_id": each.open.producer_id,
            "epoch": each.open.producer_epoch,
            "written": _time(each.open.timestamp_ms),
            "transactional_id": each.transactional_id,
        }
        for each in found
    ]
    show(rows, as_json=as_json, title="hanging transactions")


@app.command(epilog=examples("kafkapy transactions abort-hanging --topic orders --partition 0 --start-offset 1500"))
def abort_hanging(
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic.")],
    partition: Annotated[int, typer.Option("--partition", "-p", min=0, help="The partition.")],
    start_offset: Annotated[int, typer.Option("--start-offset", min=0, help="The offset that find-hanging shows.")],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Abort an open transaction that no coordinator knows, in one partition, so that its readers go on."""
    where = TopicPartition(topic, partition)
    with failures_in_one_line(), connect(bootstrap) as client:
        described = client.topic(topic, led=False)
        described.partitions = [each for each in described.partitions if each.partition_index == partition]
        if not described.partitions:
            fail(f"topic {topic} has no partition {partition}")
        if not yes:  # before the look: while it waits for an answer, the producer may begin a transaction
            typer.confirm(f"Abort the transaction at offset {start_offset} of {where}?", abort=True, err=True)
        found = [each for each in _hanging(client, [described]) if each.open.start_offset == start_offset]
        if not found:
            fail(f"no hanging transaction begins at offset {start_offset} of {where}: see find-hanging")
        (hanging,) = found
        client_transactions.end_hanging(client, hanging.open, hanging.producer_epoch, hanging.coordinator_epoch)
    done(
        f"aborted: the transaction at offset {start_offset} of {where}",
        as_json=as_json,
        topic=topic,
        partition=partition,
        start_offset=start_offset,
    )


class _Hanging(NamedTuple):
    """A hanging transaction, and the epochs that a marker for it needs."""

    open: OldestOpenTransaction
    transactional_id: str | None
    """The id that has the producer id now; None if there is none."""
    producer_epoch: int
    coordinator_epoch: int


def _hanging(client: ClusterClient, topics: Sequence[MetadataResponseTopic]) -> list[_Hanging]:
    leaderless = [
        str(TopicPartition(each.name or "", partition.partition_index))
        for each in topics
        for partition in each.partitions
        if partition.leader_id < 0
    ]
    if leaderless:
        say(f"kafkapy: not looked at, since they have no leader: {', '.join(leaderless)}", to_error=True)
    opened = _opened(client, topics)
    if not opened:
        return []
    known = {data.producer_id: (name, data) for name, data in _read(client).items()}
    epochs = _coordinator_epochs(client)
    suspects = [each for each in opened if not _is_known(each, known.get(each.producer_id))]
    of_suspects = {each.name: each for each in topics if each.name in {suspect.partition.topic for suspect in suspects}}
    still_open = set(_opened(client, list(of_suspects.values())))
    suspects = [each for each in suspects if each in still_open]
    lost = _without_start(client, suspects, of_suspects)
    found = []
    for each in suspects:
        if each in lost:
            say(f"kafkapy: {each.partition}: {_CUT}", to_error=True)
        else:
            name, data = known.get(each.producer_id, (None, None))
            producer_epoch = max(each.producer_epoch, -1 if data is None else data.producer_epoch)
            epoch = max(epochs) if name is None else epochs[partition_for(name, len(epochs))]
            found.append(_Hanging(each, name, producer_epoch, epoch))
    return found


def _opened(client: ClusterClient, topics: Sequence[MetadataResponseTopic]) -> list[OldestOpenTransaction]:
    found: list[OldestOpenTransaction] = []
    with steps_progress(len(topics)) as show_step:
        for place, topic in enumerate(topics):
            show_step(f"looking at {topic.name}", place)
            found += client_transactions.open_transactions(client, topic)
    return found


def _without_start(
    client: ClusterClient, suspects: Sequence[OldestOpenTransaction], topics: Mapping[str, MetadataResponseTopic]
) -> set[OldestOpenTransaction]:
    """Those of the transactions whose first records are deleted."""
    found = set()
    with steps_progress(len(suspects)) as show_step:
        for place, each in enumerate(suspects):
            show_step(f"reading {each.partition}", place)
            if client_transactions.has_lost_its_start(client, topics[each.partition.topic], each):
                found.add(each)
    return found


def _is_known(opened: OldestOpenTransaction, known: tuple[str, TransactionData] | None) -> bool:
    """Whether a coordinator will end the transaction."""
    return known is not None and known[1].state in _UNFINISHED and opened.partition in known[1].partitions


def _coordinator_epochs(client: ClusterClient) -> list[int]:
    """The leader epoch of each partition of ``__transaction_state``: that of its coordinator."""
    try:
        partitions = client.topic(TRANSACTION_STATE_TOPIC).partitions
    except RequestFailedError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return [0]
    return [max(each.leader_epoch, 0) for each in partitions]


def _read_one(client: ClusterClient, transactional_id: str) -> TransactionData:
    data = _read(client, transactional_id).get(transactional_id)
    if data is None:
        fail(f"transactional id {transactional_id} does not exist")
    return data


def _read(client: ClusterClient, only: str | None = None) -> dict[str, TransactionData]:
    """The last state of each transactional id in the topic; with ``only``, of those in that id's partition."""
    try:
        partitions = len(client.topic(TRANSACTION_STATE_TOPIC).partitions)
    except RequestFailedError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return {}  # no transaction was begun yet
        raise
    consumer = Consumer(client, TRANSACTION_STATE_TOPIC, None if only is None else partition_for(only, partitions))
    consumer.seek(None, from_beginning=True)
    found: dict[str, TransactionData] = {}
    for name, data in _records(consumer):
        if data is None:
            found.pop(name, None)
        else:
            found[name] = data
    return found


def _records(consumer: Consumer) -> Iterator[tuple[str, TransactionData | None]]:
    """Transactional ids and their states; None: the id has expired. Raises ClientError for what can't be decoded."""
    total = consumer.remaining
    with steps_progress(total) as show_step:
        while consumer.remaining:
            show_step(f"reading {TRANSACTION_STATE_TOPIC}", total - consumer.remaining)
            for _, partition, record in consumer.poll(wait_ms=WAIT_MS):
                try:
                    name = decode_key(record.key or b"")
                    if name is not None:
                        yield name, None if record.value is None else decode_value(record.value)
                except (ProtocolError, UnknownTransactionStateError) as error:
                    where = f"{TRANSACTION_STATE_TOPIC}-{partition}, offset {record.offset}"
                    raise ClientError(
                        f"{where} can't be decoded, a later release may have written it: {error}"
                    ) from error


def _time(timestamp_ms: int) -> str | None:
    if timestamp_ms == NO_TIMESTAMP:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
