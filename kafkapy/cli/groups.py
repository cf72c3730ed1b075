"""``kafkapy groups``."""

from typing import Annotated, Any

import typer

from kafkapy.cli.connect import connect
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes
from kafkapy.cli.output import done, examples, fail, failures_in_one_line, for_each, show
from kafkapy.clients import groups as client_groups
from kafkapy.clients import topics as client_topics
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.groups import Place
from kafkapy.protocol.constants import EARLIEST, LATEST

app = typer.Typer(no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Id of the group.")]
_END = "latest"


@app.command("list", epilog=examples("kafkapy groups list", "kafkapy groups list --json"))
def list_(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: Json = False) -> None:
    """List the groups."""
    with failures_in_one_line(), connect(bootstrap) as client:
        rows = [
            {"group": group.group_id, "state": group.group_state or "-", "protocol": group.protocol_type or "-"}
            for group in client_groups.list_groups(client)
        ]
    show(rows, as_json=as_json, title="groups")


@app.command(epilog=examples("kafkapy groups describe spark", "kafkapy groups describe spark --json"))
def describe(group: Group, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: Json = False) -> None:
    """Show a group's members, committed offsets and lag."""
    with failures_in_one_line(), connect(bootstrap) as client:
        found = client_groups.describe_group(client, group)
        offsets = client_groups.committed(client, group)
        ends = _ends(client, offsets)
    if found.group_state == "Dead" and not offsets:
        fail(f"group {group} does not exist")
    owners = {
        place: member.client_id
        for member in found.members
        for place in client_groups.assigned(bytes(member.member_assignment))
    }
    rows = [_row(place, offsets, ends, owners) for place in sorted(offsets.keys() | owners.keys())]
    members = [
        {"member": member.member_id, "client": member.client_id, "host": member.client_host} for member in found.members
    ]
    if as_json:
        done("", as_json=True, group=group, state=found.group_state, members=members, offsets=rows)
        return
    show(rows, as_json=False, title=f"group {group} ({found.group_state})", if_empty="no committed offsets")
    show(members, as_json=False, title="members")


def _row(place: Place, offsets: dict[Place, int], ends: dict[Place, int], owners: dict[Place, str]) -> dict[str, Any]:
    offset, end = offsets.get(place), ends.get(place)
    return {
        "topic": place[0],
        "partition": place[1],
        "committed": offset,
        "end_offset": end,
        "lag": None if offset is None or end is None else max(end - offset, 0),
        "client": owners.get(place),
    }


def _ends(client: ClusterClient, places: dict[Place, int]) -> dict[Place, int]:
    ends = {}
    for name in sorted({topic for topic, _ in places}):
        partitions = [index for topic, index in places if topic == name]
        found = client_topics.offsets(client, client.topic(name, led=False), partitions, LATEST)
        ends.update({(name, index): offset for index, offset in found.items()})
    return ends


@app.command(epilog=examples("kafkapy groups delete spark", "kafkapy groups delete a b --yes"))
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Ids of groups.")],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Delete groups that have no members, and their offsets."""
    with failures_in_one_line(), connect(bootstrap) as client:
        if not yes:
            typer.confirm(f"Delete {', '.join(groups)} and the offsets committed there?", abort=True, err=True)

        def delete_one(group: str) -> bool:
            client_groups.delete_group(client, group)
            return True

        for_each(groups, delete_one, "deleted", as_json=as_json)


@app.command(
    "reset-offsets",
    epilog=examples(
        "kafkapy groups reset-offsets spark --topic flights --to earliest",
        "kafkapy groups reset-offsets spark --topic flights:0 --to 1500",
        "kafkapy groups reset-offsets spark --topic flights --to 2024-05-01T00:00:00Z --dry-run",
    ),
)
def reset_offsets(
    group: Group,
    topic: Annotated[
        str, typer.Option("--topic", "-t", metavar="TOPIC[:PARTITION]", help="The topic, or one of its partitions.")
    ],
    to: Annotated[
        str, typer.Option("--to", help="earliest, latest, an offset, or a time such as 2024-05-01T00:00:00Z.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be committed.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Commit other offsets for a group that has no members."""
    name, _, index = topic.partition(":")
    if index and not index.isdecimal():
        fail(f"{topic!r} is no topic and partition: write topic:0")
    with failures_in_one_line(), connect(bootstrap) as client:
        client_groups.require_no_members(client, group)
        before = client_groups.committed(client, group)
        after = _targets(client, name, int(index) if index else None, to)
        if not dry_run:
            client_groups.commit(client, group, after)
    rows = [
        {"topic": place[0], "partition": place[1], "before": before.get(place), "after": offset}
        for place, offset in sorted(after.items())
    ]
    show(rows, as_json=as_json, title=f"group {group}{', not committed: dry run' if dry_run else ''}")


def _targets(client: ClusterClient, name: str, only: int | None, to: str) -> dict[Place, int]:
    topic = client.topic(name)
    partitions = [each.partition_index for each in topic.partitions if only in (None, each.partition_index)]
    if not partitions:
        fail(f"topic {name} has no partition {only}")
    first = client_topics.offsets(client, topic, partitions, EARLIEST)
    end = client_topics.offsets(client, topic, partitions, LATEST)
    if to == "earliest":
        wanted = first
    elif to == _END:
        wanted = end
    elif (offset := _offset(to)) is not None:
        wanted = dict.fromkeys(partitions, offset)
    else:
        found = client_topics.offsets(client, topic, partitions, _time_ms(to))
        wanted = {index: offset if offset >= 0 else end[index] for index, offset in found.items()}
    return {(name, index): min(max(offset, first[index]), end[index]) for index, offset in wanted.items()}


def _offset(text: str) -> int | None:
    """The offset that ``text`` is, None if it is no whole number; a negative one ends the command."""
    try:
        offset = int(text)
    except ValueError:
        return None
    if offset < 0:
        fail(f"--to {text}: an offset is 0 or more; write earliest or latest for the ends of a partition")
    return offset


def _time_ms(text: str) -> int:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{text!r} is neither earliest, latest, an offset nor a time such as 2024-05-01T00:00:00Z")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
