"""``kafkapy topics reassign``: replicas move to other brokers, by a plan that is shown first."""

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import typer

from kafkapy.cli.output import counted, done, fail, fail_with, say, show, shows_progress
from kafkapy.clients import brokers as client_brokers
from kafkapy.clients import moves
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError, NoBrokerError, RequestFailedError
from kafkapy.clients.moves import Assignment, Moving, Place
from kafkapy.clients.placement import balanced
from kafkapy.protocol.messages.metadata import MetadataResponse

if TYPE_CHECKING:
    from rich.progress import Progress

LOOK_EVERY_S: Final = 0.2
PATIENCE_LOOKS: Final = 150
"""How often the cluster is asked again while no broker answers, and for the end of a move to be known: 30 s."""
ALL: Final = "all"
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as shells have it."""
_MOST_REFUSALS: Final = 5
_MOST_THREADS: Final = 16
_HIGHEST_ID: Final = (1 << 31) - 1


class Wanted(NamedTuple):
    """The options that say what is to move."""

    to: str | None
    plan: Path | None
    topics: Sequence[str]
    replication_factor: int | None


class Execution(NamedTuple):
    """The options that say how."""

    dry_run: bool
    yes: bool
    wait: bool
    throttle: int | None
    as_json: bool


def list_moves(client: ClusterClient, *, as_json: bool) -> None:
    """Show the moves that are under way."""
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "replicas": [each for each in found.replicas if each not in found.adding],
            "adding": found.adding,
            "removing": found.removing,
        }
        for (topic, partition), found in moves.moving(client).items()
    ]
    show(rows, as_json=as_json, title="moving replicas", if_empty="no replicas are moving")


def cancel(client: ClusterClient, topics: Sequence[str], how: Execution) -> None:
    """Cancel the moves of these topics, or all: the replicas are those of before again."""
    for topic in topics:
        client.topic(topic, led=False)
    moving = moves.moving(client)
    found = {place: each for place, each in moving.items() if not topics or place[0] in topics}
    if not found:
        freed = [] if moving or how.dry_run else _remove_kept_throttle(client, topics)
        hint = f"; the limit of --throttle is removed from {counted(len(freed), 'topic')}" if freed else ""
        done(f"no replicas are moving{hint}", as_json=how.as_json, cancelled=[])
        return
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "moves to": [each for each in moved.replicas if each not in moved.removing],
            "stays on": [each for each in moved.replicas if each not in moved.adding],
        }
        for (topic, partition), moved in found.items()
    ]
    show(rows, as_json=False, title=f"moves of {counted(len(rows), 'partition')}", to_error=how.as_json)
    if how.dry_run:
        return
    if not how.yes:
        typer.confirm("Cancel these moves?", abort=True, err=True)
    refused = moves.move(client, dict.fromkeys(found))
    throttled = [topic for topic in sorted({topic for topic, _ in found}) if moves.is_throttled(client, topic)]
    if throttled:
        _remove_throttle(client, throttled, _brokers_of_moves(found))
    done(
        f"cancelled: {counted(len(found) - len(refused), 'move')}",
        as_json=how.as_json,
        cancelled=[{"topic": place[0], "partition": place[1]} for place in found if place not in refused],
    )
    _fail_if(refused)


def reassign(client: ClusterClient, wanted: Wanted, how: Execution) -> None:
    """Make or read the plan, show it, and execute it."""
    cluster = client.metadata()
    racks = {broker.node_id: broker.rack for broker in cluster.brokers}
    current = {
        (topic.name or "", partition.partition_index): partition.replica_nodes
        for topic in cluster.topics
        for partition in topic.partitions
    }
    if wanted.plan is not None:
        targets = read_plan(wanted.plan)
    else:
        targets = _balanced(current, _chosen(wanted.to or "", current, racks), wanted)
    _check_targets(targets, current, racks)
    changed = {place: brokers for place, brokers in sorted(targets.items()) if brokers != current[place]}
    if how.dry_run and how.as_json:
        done("", as_json=True, **kafka_json(changed))
        return
    if not changed:
        done("nothing to move: every replica is where the plan wants it", as_json=how.as_json, **kafka_json({}))
        return
    _show_plan(client, current, changed, how)
    if how.dry_run:
        return
    already = [place for place in moves.moving(client) if place in changed]
    if already:
        fail(
            f"replicas of {_named(already)} are moving already: wait for the end, or stop it with kafkapy topics"
            " reassign --cancel"
        )
    if not how.yes:
        typer.confirm("Move these replicas?", abort=True, err=True)
    _execute(client, {place: current[place] for place in changed}, changed, how)


# the plan


def _chosen(to: str, current: Assignment, racks: Mapping[int, str | None]) -> dict[int, str | None]:
    """The brokers of ``--to`` with their racks."""
    if to == ALL:
        return dict(racks)
    words = [word.strip() for word in to.split(",") if word.strip()]
    strange = next((word for word in words if not word.isdecimal()), None)
    if strange is not None or not words:
        fail(f"{strange or to!r} is no list of brokers: write --to 0,1,2 or --to all")
    ids = list(map(int, words))
    if len(set(ids)) < len(ids):
        fail(f"--to {to} names a broker twice")
    _check_brokers(ids, current, racks)
    return {broker: racks[broker] for broker in ids}


def _check_brokers(ids: Iterable[int], current: Assignment, racks: Mapping[int, str | None]) -> None:
    """End the command if a broker is not online: metadata name the others only where they have replicas."""
    for broker in ids:
        if broker not in racks:
            state = "is offline" if broker in _flat(current) else "is offline, or does not exist"
            fail(f"broker {broker} {state}: replicas can move to brokers that are online, {_listed(sorted(racks))}")


def _balanced(current: Assignment, to: dict[int, str | None], wanted: Wanted) -> Assignment:
    known = {topic for topic, _ in current}
    for topic in wanted.topics:
        if topic not in known:
            fail(f"topic {topic} does not exist")
    chosen = {place: brokers for place, brokers in current.items() if not wanted.topics or place[0] in wanted.topics}
    _check_enough(chosen, len(to), wanted)
    some = {rack is None for rack in to.values()}
    if len(some) > 1:
        without = ", ".join(str(broker) for broker, rack in to.items() if rack is None)
        say(f"kafkapy: racks are not considered: broker.rack is not set for {without}", to_error=True)
    return balanced(chosen, to, replication_factor=wanted.replication_factor)


def _check_enough(chosen: Assignment, brokers: int, wanted: Wanted) -> None:
    """End the command if a partition is to have more replicas than there are brokers for them."""
    for_all = wanted.to == ALL
    means = f"{'--to all means' if for_all else '--to names'} only {counted(brokers, 'broker')}"
    if wanted.replication_factor is not None:
        if wanted.replication_factor > brokers:
            fail(f"--replication-factor {wanted.replication_factor} needs as many brokers, and {means}")
        return
    most = max(map(len, chosen.values()), default=0)
    if most > brokers:
        topic, partition = next(place for place, replicas in sorted(chosen.items()) if len(replicas) == most)
        fail(
            f"partition {topic}-{partition} has {most} replicas, and {means}: {'start' if for_all else 'name'} at least"
            f" {most} brokers, or reduce the replicas with --replication-factor {brokers} (-r {brokers})"
        )


def read_plan(path: Path) -> Assignment:
    """A plan in the JSON of Kafka's own tool; ends the command if it is not valid."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        fail_with(error)
    except (ValueError, RecursionError) as error:
        fail(f"{path}: this is no JSON: {str(error)[:200]}")
    if (
        not isinstance(document, dict)
        or document.get("version") != 1
        or not isinstance(document.get("partitions"), list)
    ):
        fail(f'{path}: a plan begins with {{"version": 1, "partitions": [')
    result: Assignment = {}
    for item in document["partitions"]:
        place, brokers = _item(path, item)
        if place in result:
            fail(f"{path}: partition {place[0]}-{place[1]} is there twice")
        result[place] = brokers
    if not result:
        fail(f"{path}: the plan has no partitions")
    return result


def _item(path: Path, item: Any) -> tuple[Place, list[int]]:
    def invalid() -> NoReturn:
        fail(
            f'{path}: {json.dumps(item)[:100]} is no partition of a plan: write {{"topic": "flights", "partition": 0,'
            ' "replicas": [0, 1]}'
        )

    if not isinstance(item, dict):
        invalid()
    topic, partition, replicas = (item.get(name) for name in ("topic", "partition", "replicas"))
    if not isinstance(topic, str) or not isinstance(replicas, list):
        invalid()
    if not isinstance(partition, int) or not _is_number(partition):
        invalid()
    _check_replicas(f"{path}: {topic}-{partition}", replicas)
    directories = item.get("log_dirs")
    if directories is not None and (not isinstance(directories, list) or set(map(str, directories)) - {"any"}):
        fail(f"{path}: {topic}-{partition} names log directories: this command moves replicas between brokers only")
    return (topic, partition), replicas


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _HIGHEST_ID


def _check_replicas(where: str, replicas: list[Any]) -> None:
    if not replicas:
        fail(f"{where} has an empty list of replicas: name the brokers that are to have one")
    for at, broker in enumerate(replicas):
        if not _is_number(broker):
            fail(
                f"{where} is to have a replica on broker {json.dumps(broker)[:100]}: the ids of"
                f" brokers are whole numbers from 0 to {_HIGHEST_ID}"
            )
        if broker in replicas[:at]:
            fail(f"{where} names broker {broker} twice: a broker has only one replica of a partition")


def kafka_json(targets: Mapping[Place, Sequence[int]]) -> dict[str, Any]:
    """A plan in the JSON of Kafka's own tool."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": list(brokers)}
        for (topic, partition), brokers in targets.items()
    ]
    return {"version": 1, "partitions": partitions}


def _check_targets(targets: Assignment, current: Assignment, racks: Mapping[int, str | None]) -> None:
    topics = {topic for topic, _ in current}
    for place, brokers in targets.items():
        if place[0] not in topics:
            fail(f"topic {place[0]} does not exist")
        if place not in current:
            fail(f"topic {place[0]} has no partition {place[1]}")
        _check_brokers(brokers, current, racks)


def _show_plan(client: ClusterClient, current: Assignment, changed: Assignment, how: Execution) -> None:
    rows = [
        {"topic": topic, "partition": partition, "replicas": current[topic, partition], "new replicas": brokers}
        for (topic, partition), brokers in changed.items()
    ]
    copied = [
        (place, broker) for place, brokers in changed.items() for broker in brokers if broker not in current[place]
    ]
    size = _size(client, current, [place for place, _ in copied])
    show(rows, as_json=False, title="plan", to_error=how.as_json)
    removed = sum(broker not in changed[place] for place in changed for broker in current[place])
    what = [f"{counted(len(copied), 'replica')} to copy{size}" if copied else "nothing to copy"]
    what += [f"{counted(removed, 'replica')} to remove"] if removed else []
    say(f"{counted(len(rows), 'partition')}, {', '.join(what)}", to_error=how.as_json)


def _size(client: ClusterClient, current: Assignment, places: Sequence[Place]) -> str:
    """How many bytes are to be copied, nothing if the brokers don't tell."""
    from rich.filesize import decimal

    sizes: dict[Place, int] = {}
    brokers = {broker for place in places for broker in current[place]} & set(client.node_ids())
    try:
        with client.with_timeout(client_brokers.TIMEOUT_S) as impatient:
            for broker in sorted(brokers):
                for directory in client_brokers.log_dirs(impatient, broker):
                    for place, size in directory.sizes.items():
                        sizes[place] = max(size, sizes.get(place, 0))
    except ClientError:
        return ""
    return f", {decimal(sum(sizes.get(place, 0) for place in places))}"


# the execution


def _execute(client: ClusterClient, before: Assignment, changed: Assignment, how: Execution) -> None:
    if how.throttle is not None:
        moves.throttle(client, before, changed, how.throttle)
    refused = moves.move(client, changed)
    started = {place: brokers for place, brokers in changed.items() if place not in refused}
    facts = {**kafka_json(started), "refused": [{"topic": place[0], "partition": place[1]} for place in refused]}
    if not how.wait:
        hint = "; its limit stays until kafkapy topics reassign --cancel removes it" if how.throttle is not None else ""
        done(f"started: {counted(len(started), 'move')}{hint}", as_json=how.as_json, **facts)
        _fail_if(refused)
        return
    try:
        _wait(client, started)
    except KeyboardInterrupt:
        limit = "; the limit of --throttle stays" if how.throttle is not None else ""
        removes = " and removes the limit, also when they have ended" if how.throttle is not None else ""
        say(
            f"kafkapy: the cluster goes on moving{limit}. kafkapy topics reassign --list shows the moves, --cancel"
            f" stops them{removes}",
            to_error=True,
        )
        raise typer.Exit(INTERRUPTED) from None
    if how.throttle is not None:
        _remove_throttle(client, {topic for topic, _ in changed}, sorted(_flat(before) | _flat(changed)))
    other = _other(client, started)
    if other:
        place, replicas = next(iter(other.items()))
        fail(
            f"{counted(len(other), 'partition')} did not move as planned: {place[0]}-{place[1]} has replicas"
            f" {_listed(replicas)}, not {_listed(started[place])}. The move was cancelled or replaced"
        )
    not_led = _not_led(client.metadata(sorted({topic for topic, _ in started})), started)
    hint = ""
    if not_led:
        hint = f"; {counted(not_led, 'partition')} not led by the first replica yet: kafkapy topics elect changes that"
    done(f"moved: {counted(len(started), 'partition')}{hint}", as_json=how.as_json, **facts)
    _fail_if(refused)


def _wait(client: ClusterClient, started: Assignment) -> None:
    """Wait until none of these partitions moves; a bar shows how many are done, and the next that are not."""
    pause = threading.Event()
    silent = 0
    with ExitStack() as stack:
        bar = stack.enter_context(_progress()) if shows_progress() else None
        task = None if bar is None else bar.add_task("moving", total=len(started))
        while True:
            try:
                left = [place for place in moves.moving(client) if place in started]
            except NoBrokerError:  # the controller may have ended; another one takes over
                silent += 1
                if silent > PATIENCE_LOOKS:
                    raise
                client.close()
            else:
                silent = 0
                if bar is not None and task is not None:
                    bar.update(task, description=f"moving {_named(left)}".rstrip(), completed=len(started) - len(left))
                if not left:
                    return
            pause.wait(LOOK_EVERY_S)


def _progress() -> "Progress":
    from kafkapy.cli.output import progress

    return progress()


def _other(client: ClusterClient, started: Assignment) -> Assignment:
    """The partitions whose replicas are not those of the plan; brokers may learn of the end of a move a bit later."""
    pause = threading.Event()
    other: Assignment = {}
    for _ in range(PATIENCE_LOOKS):
        found = client.metadata(sorted({topic for topic, _ in started}))
        now = {
            (topic.name or "", each.partition_index): each.replica_nodes
            for topic in found.topics
            for each in topic.partitions
        }
        other = {place: now.get(place, []) for place, brokers in started.items() if now.get(place) != brokers}
        if not other:
            break
        pause.wait(LOOK_EVERY_S)
    return other


def _not_led(found: MetadataResponse, started: Assignment) -> int:
    """How many of these partitions have a leader that is not their first replica."""
    leaders = {
        (topic.name or "", each.partition_index): each.leader_id for topic in found.topics for each in topic.partitions
    }
    return sum(leaders.get(place) != brokers[0] for place, brokers in started.items())


def _remove_kept_throttle(client: ClusterClient, topics: Sequence[str]) -> list[str]:
    """Remove the limits that moves which have ended left behind, of these topics or all; return the topics."""
    replicas = {
        topic.name or "": {broker for partition in topic.partitions for broker in partition.replica_nodes}
        for topic in client.metadata().topics
        if not topics or topic.name in topics
    }
    throttled = [topic for topic in sorted(replicas) if moves.is_throttled(client, topic)]
    if throttled:
        _remove_throttle(client, throttled, sorted(set[int]().union(*(replicas[topic] for topic in throttled))))
    return throttled


def _remove_throttle(client: ClusterClient, topics: Iterable[str], brokers: Iterable[int]) -> None:
    """Remove the limits of topics and brokers; say which brokers keep theirs because they don't answer."""
    from concurrent.futures import ThreadPoolExecutor

    moves.remove_throttle(client, [], topics)

    def free(broker: int) -> ClientError | None:
        with client.with_timeout(client_brokers.TIMEOUT_S) as impatient:
            try:
                moves.remove_throttle(impatient, [broker], [])
            except ClientError as error:
                return error
        return None

    ids = list(brokers)
    with ThreadPoolExecutor(_MOST_THREADS) as threads:  # all brokers that are silent together take as long as one
        for broker, error in zip(ids, threads.map(free, ids), strict=True):
            if error is not None:
                keys = f"--delete {moves.LEADER_RATE} --delete {moves.FOLLOWER_RATE}"
                say(
                    f"kafkapy: broker {broker} keeps its limit: {error}. Later: kafkapy configs alter broker {broker}"
                    f" {keys}",
                    to_error=True,
                )


def _brokers_of_moves(found: Mapping[Place, Moving]) -> list[int]:
    return sorted({broker for each in found.values() for broker in each.replicas})


def _flat(assignment: Assignment) -> set[int]:
    return {broker for brokers in assignment.values() for broker in brokers}


def _listed(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _named(places: Sequence[Place]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in places[:3]) + ("…" if len(places) > 3 else "")


def _fail_if(refused: Mapping[Place, RequestFailedError]) -> None:
    if refused:
        some = "; ".join(str(error) for error in list(refused.values())[:_MOST_REFUSALS])
        fail(f"{counted(len(refused), 'move')} refused: {some}")
