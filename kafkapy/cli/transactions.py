"""``kafkapy transactions``: shows the contents of ``__transaction_state``, and aborts open transactions.

Kafka 2.7 has no API that shows transactions, so the command reads the records of the topic, as any consumer may; a
coordinator writes each change there before it answers.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from kafkapy.cli.consume import WAIT_MS, Consumer
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes
from kafkapy.cli.output import done, examples, fail, failures_in_one_line, show
from kafkapy.clients import transactions as client_transactions
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError
from kafkapy.coordinator.hashing import partition_for
from kafkapy.coordinator.transaction.records import decode_key, decode_value
from kafkapy.coordinator.transaction.states import ONGOING, STATE_NAMES
from kafkapy.coordinator.transaction.transaction import TransactionData
from kafkapy.metadata.topic_rules import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.types import NO_TIMESTAMP

app = typer.Typer(no_args_is_help=True)

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
    with failures_in_one_line(), ClusterClient(bootstrap) as client:
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
    with failures_in_one_line(), ClusterClient(bootstrap) as client:
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
    with failures_in_one_line(), ClusterClient(bootstrap) as client:
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
    for name, value in _records(consumer):
        if value is None:
            found.pop(name, None)
        else:
            found[name] = decode_value(value)
    return found


def _records(consumer: Consumer) -> Iterator[tuple[str, bytes | None]]:
    while consumer.remaining:
        for consumed in consumer.poll(wait_ms=WAIT_MS):
            name = decode_key(consumed.record.key or b"")
            if name is not None:
                yield name, consumed.record.value


def _time(timestamp_ms: int) -> str | None:
    if timestamp_ms == NO_TIMESTAMP:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
