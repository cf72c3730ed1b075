"""``kafkapy topics elect``: elections of leaders."""

import threading
from collections.abc import Sequence
from typing import Any, Final

import typer

from kafkapy.cli.output import counted, fail, show
from kafkapy.clients import moves
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError
from kafkapy.clients.moves import Place
from kafkapy.protocol.errors import ErrorCode

LOOK_EVERY_S: Final = 0.05
LOOKS: Final = 100
"""How often the brokers are asked for the new leaders: for 5 s."""
Leaders = dict[Place, int]


def elect(client: ClusterClient, names: Sequence[str], *, unclean: bool, yes: bool, as_json: bool) -> None:
    """Elect leaders of these topics or partitions, or of all, and show what has changed."""
    places = _places(client, names) if names else None
    before = _leaders(client)
    if unclean and not yes:
        typer.confirm(
            "Records that only offline replicas have will be lost. Elect leaders anyway?", abort=True, err=True
        )
    results = moves.elect(client, places, unclean=unclean)
    elected = [place for place, error in results.items() if error is None]
    after = _leaders_after(client, elected, before)
    rows = [
        {
            "topic": place[0],
            "partition": place[1],
            "leader_before": _leader(before, place),
            "leader": _leader(after, place),
            "result": _result(error),
        }
        for place, error in sorted(results.items(), key=lambda item: item[0])
    ]
    show(
        rows,
        as_json=as_json,
        title="unclean elections" if unclean else "elections of preferred leaders",
        if_empty="none needed, each partition is led by its first replica",
    )
    failed = [error for error in results.values() if error is not None and not _is_no_failure(error)]
    if failed:
        fail(f"{len(failed)} of {counted(len(results), 'election')} failed, leaders stay as they were: {failed[0]}")


def _places(client: ClusterClient, names: Sequence[str]) -> list[Place]:
    """The partitions of topics, or single ones (``flights:0``)."""
    places: dict[Place, None] = {}
    for name in names:
        topic, _, index = name.partition(":")
        if index and not index.isdecimal():
            fail(f"{name!r} is no topic and partition: write {topic}:0")
        found = [each.partition_index for each in client.topic(topic, led=False).partitions]
        if index and int(index) not in found:
            fail(f"topic {topic} has no partition {int(index)}")
        places |= dict.fromkeys((topic, each) for each in found if not index or each == int(index))
    return list(places)


def _leaders(client: ClusterClient) -> Leaders:
    topics = client.metadata().topics
    return {(topic.name or "", each.partition_index): each.leader_id for topic in topics for each in topic.partitions}


def _leaders_after(client: ClusterClient, elected: Sequence[Place], before: Leaders) -> Leaders:
    """The leaders, once the broker that is asked knows the new ones; it may learn of them after the controller."""
    pause = threading.Event()
    after = _leaders(client)
    for _ in range(LOOKS):
        if all(after.get(place, -1) not in (-1, before.get(place, -1)) for place in elected):
            break
        pause.wait(LOOK_EVERY_S)
        after = _leaders(client)
    return after


def _leader(leaders: Leaders, place: Place) -> int | None:
    leader = leaders.get(place, -1)
    return leader if leader >= 0 else None


def _is_no_failure(error: RequestFailedError) -> bool:
    return error.code == ErrorCode.ELECTION_NOT_NEEDED


def _result(error: RequestFailedError | None) -> Any:
    if error is None:
        return "elected"
    return "not needed" if _is_no_failure(error) else error.code_name
