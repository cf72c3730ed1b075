"""``kafkapy brokers``: the brokers of a cluster."""

from typing import Any, Final

from kafkapy.cli.connect import connect
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from kafkapy.cli.output import examples, failures_in_one_line, say, show
from kafkapy.clients import brokers as client_brokers
from kafkapy.clients.brokers import BrokerSummary, LogDir
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError

EXAMPLES: Final = examples("kafkapy brokers", "kafkapy brokers --json", "kafkapy brokers --bootstrap broker1:9092")


def run(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: Json = False) -> None:
    """Show the brokers: address, rack, which is the controller, partitions that each leads, replicas and their size.

    A broker that has replicas and is not registered is offline and has no address. Replicas out of sync are those that
    their leader does not count for acks=all.
    """
    with failures_in_one_line(), connect(bootstrap) as client:
        summaries = client_brokers.summaries(client)
        with client.with_timeout(client_brokers.TIMEOUT_S) as impatient:
            directories = {each.broker_id: _log_dirs(impatient, each) for each in summaries}
    rows = [_row(each, directories[each.broker_id]) for each in summaries]
    if as_json:
        show(rows, as_json=True)
        return
    for row in rows:
        row["size"] = _total(row.pop("log_dirs"))
    show(rows, as_json=False, title="brokers")
    for broker_id, found in directories.items():
        for each in found or ():
            if each.problem is not None:
                say(f"broker {broker_id}: log directory {each.path} is offline: {each.problem}", to_error=True)


def _row(broker: BrokerSummary, directories: list[LogDir] | None) -> dict[str, Any]:
    return {
        "broker": broker.broker_id,
        "address": broker.address,
        "rack": broker.rack,
        "state": "offline" if broker.address is None else "online",
        "controller": broker.is_controller,
        "leads": broker.leads,
        "replicas": broker.replicas,
        "out_of_sync": broker.out_of_sync,
        "log_dirs": None
        if directories is None
        else [{"path": each.path, "size": each.size, "problem": each.problem} for each in directories],
    }


def _log_dirs(client: ClusterClient, broker: BrokerSummary) -> list[LogDir] | None:
    """The broker's log directories, None if it does not tell them."""
    if broker.address is None:
        return None
    try:
        return client_brokers.log_dirs(client, broker.broker_id)
    except ClientError as error:
        say(f"kafkapy: broker {broker.broker_id} does not report its log directories: {error}", to_error=True)
        return None


def _total(directories: list[dict[str, Any]] | None) -> str | None:
    from rich.filesize import decimal  # a table needs rich anyway

    return None if directories is None else decimal(sum(each["size"] for each in directories))
