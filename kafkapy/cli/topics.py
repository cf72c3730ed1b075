"""``kafkapy topics``."""

from pathlib import Path
from typing import Annotated

import typer

from kafkapy.cli.connect import connect
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes
from kafkapy.cli.output import done, examples, fail, failures_in_one_line, for_each, parse_pairs, show
from kafkapy.clients import configs as client_configs
from kafkapy.clients import topics as client_topics
from kafkapy.clients.errors import RequestFailedError
from kafkapy.protocol.constants import EARLIEST, LATEST
from kafkapy.protocol.errors import ErrorCode

app = typer.Typer(no_args_is_help=True)

Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Names of topics.")]
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
Configs = Annotated[
    list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE", help="A setting of the topic; repeatable.")
]
_TOPIC_SOURCE = 1


@app.command("list", epilog=examples("kafkapy topics list", "kafkapy topics list --internal --json"))
def list_(
    internal: Annotated[bool, typer.Option("--internal", help="Also Kafka's internal topics.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """List the topics."""
    with failures_in_one_line(), connect(bootstrap) as client:
        rows = [
            {
                "topic": topic.name,
                "partitions": len(topic.partitions),
                "replicas": len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
            }
            for topic in client_topics.list_topics(client)
            if internal or not topic.is_internal
        ]
    show(rows, as_json=as_json, title="topics")


@app.command(epilog=examples("kafkapy topics describe flights", "kafkapy topics describe flights --json"))
def describe(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: Json = False) -> None:
    """Show a topic's partitions, their offsets (if they have a leader), and its own settings.

    A partition is under-replicated if not all of its replicas are in sync.
    """
    with failures_in_one_line(), connect(bootstrap) as client:
        topic = client.topic(name, led=False)
        indexes = [partition.partition_index for partition in topic.partitions]
        first = client_topics.offsets(client, topic, indexes, EARLIEST)
        end = client_topics.offsets(client, topic, indexes, LATEST)
        settings = client_configs.describe(client, "topic", name)
    rows = [
        {
            "partition": partition.partition_index,
            "leader": partition.leader_id if partition.leader_id >= 0 else None,
            "replicas": partition.replica_nodes,
            "in_sync": partition.isr_nodes,
            "under_replicated": len(partition.isr_nodes) < len(partition.replica_nodes),
            "first_offset": first.get(partition.partition_index),
            "end_offset": end.get(partition.partition_index),
        }
        for partition in topic.partitions
    ]
    own = [{"key": each.name, "value": each.value} for each in settings if each.config_source == _TOPIC_SOURCE]
    if as_json:
        done("", as_json=True, topic=name, partitions=rows, configs={each["key"]: each["value"] for each in own})
        return
    show(rows, as_json=False, title=f"topic {name}")
    if own:
        show(own, as_json=False, title="its own settings")


@app.command(
    epilog=examples(
        "kafkapy topics create flights --partitions 4",
        "kafkapy topics create events --config cleanup.policy=compact --config retention.ms=3600000",
        "kafkapy topics create a b c --if-not-exists",
    )
)
def create(  # noqa: PLR0913, PLR0917  # typer reads a command's options from its parameters
    names: Names,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="-1: the broker's default.")] = -1,
    replicas: Annotated[int, typer.Option("--replication-factor", "-r", help="-1: the broker's default.")] = -1,
    config: Configs = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="A topic that exists is no error.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Create topics."""
    configs = parse_pairs(config or [])
    with failures_in_one_line(), connect(bootstrap) as client:

        def create_one(name: str) -> bool:
            try:
                client_topics.create_topic(client, name, partitions=partitions, replicas=replicas, configs=configs)
            except RequestFailedError as error:
                if not (if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
                    raise
                return False
            return True

        for_each(names, create_one, "created", as_json=as_json)


@app.command(epilog=examples("kafkapy topics delete flights", "kafkapy topics delete a b --yes"))
def delete(names: Names, yes: Yes = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: Json = False) -> None:
    """Delete topics and their records."""
    with failures_in_one_line(), connect(bootstrap) as client:
        if not yes:
            typer.confirm(f"Delete {', '.join(names)} and all their records?", abort=True, err=True)

        def delete_one(name: str) -> bool:
            client_topics.delete_topic(client, name)
            return True

        for_each(names, delete_one, "deleted", as_json=as_json)


@app.command(
    epilog=examples(
        "kafkapy topics alter flights --partitions 8",
        "kafkapy topics alter flights --config retention.ms=86400000 --delete-config cleanup.policy",
    )
)
def alter(
    name: Name,
    partitions: Annotated[int | None, typer.Option("--partitions", "-p", help="The new, larger number.")] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config", metavar="KEY", help="Remove this setting, so that the broker's applies; repeatable."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Give a topic more partitions or other settings."""
    values, deleted = parse_pairs(config or []), delete_config or []
    if partitions is None and not values and not deleted:
        fail("nothing to alter: give --partitions, --config or --delete-config")
    with failures_in_one_line(), connect(bootstrap) as client:
        if values or deleted:
            client_configs.alter(client, "topic", name, values, deleted)
        if partitions is not None:
            client_topics.grow_topic(client, name, partitions)
    done(f"altered: {name}", as_json=as_json, altered=name)


@app.command(
    epilog=examples(
        "kafkapy topics reassign --to 0,1,2",
        "kafkapy topics reassign --topic flights --to all --dry-run",
        "kafkapy topics reassign --to 0,1,2 --dry-run --json > plan.json",
        "kafkapy topics reassign --plan plan.json --throttle 50000000 --yes",
        "kafkapy topics reassign --list",
        "kafkapy topics reassign --cancel",
    )
)
def reassign(  # noqa: PLR0913, PLR0917  # typer reads a command's options from its parameters
    to: Annotated[
        str | None, typer.Option("--to", metavar="ID,ID,…", help="Balance the replicas over these brokers, or all.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", help="Only this topic; repeatable. Default: all topics.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Move by this plan, in the JSON of Kafka's own tool.")
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", min=1, help="With --to: the new number of replicas."),
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", min=1, metavar="BYTES", help="Copy at most so much per second and broker."),
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Show the moves that are under way.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the moves that are under way.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return at once, while replicas move.")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Move replicas to other brokers, by a balanced plan or by your own; the plan is shown before.

    The plan for --to moves few replicas, and keeps the replicas of a partition on different racks if all brokers have
    one. The command waits until all have moved; after Ctrl-C the cluster goes on.
    """
    from kafkapy.cli import reassign as command
    from kafkapy.clients.moves import CLIENT_TIMEOUT_S

    asked = {"--to": to is not None, "--plan": plan is not None, "--list": list_only, "--cancel": cancel}
    given = [name for name, is_given in asked.items() if is_given]
    if not given:
        fail("say what to do: --to 0,1,2, --plan FILE, --list or --cancel")
    if len(given) > 1:
        fail(f"{' and '.join(given)} can't be used together: choose one of them")
    if to is None and replicas is not None:
        fail("--replication-factor goes with --to")
    if topic and (plan is not None or list_only):
        fail("--topic goes with --to and --cancel")
    if throttle is not None and (list_only or cancel):
        fail("--throttle goes with --to and --plan")
    how = command.Execution(dry_run, yes, not no_wait, throttle, as_json)
    with failures_in_one_line(), connect(bootstrap, CLIENT_TIMEOUT_S) as client:
        if list_only:
            command.list_moves(client, as_json=as_json)
        elif cancel:
            command.cancel(client, topic or [], how)
        else:
            command.reassign(client, command.Wanted(to, plan, topic or [], replicas), how)


@app.command(
    epilog=examples(
        "kafkapy topics elect",
        "kafkapy topics elect flights orders:0",
        "kafkapy topics elect flights --unclean",
    )
)
def elect(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC[:PARTITION]]...", help="Topics or partitions; default: all.", show_default=False
        ),
    ] = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Elect any live replica of partitions without a leader: records are lost.")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Elect the preferred leaders of partitions, their first replicas; show which leaders have changed."""
    from kafkapy.cli import elect as command
    from kafkapy.clients.moves import CLIENT_TIMEOUT_S

    if unclean and not names:
        fail("--unclean may lose records: name the topics")
    with failures_in_one_line(), connect(bootstrap, CLIENT_TIMEOUT_S) as client:
        command.elect(client, names or [], unclean=unclean, yes=yes, as_json=as_json)
