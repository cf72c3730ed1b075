"""Fetches as tests want them: without steps."""

import asyncio
from collections.abc import Callable, Generator
from typing import TypeVar

from kafkapy.replication import fetching
from kafkapy.replication.fetching import FetchLimits, FollowerWishes, PartitionRead, Reads, Wishes
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.turns import finish

T = TypeVar("T")


def fetch(
    replicas: ReplicaManager,
    wishes: Wishes,
    limits: FetchLimits,
    build: Callable[[Reads], T],
    session: FollowerWishes | None = None,
) -> "T | asyncio.Future[T]":
    """The result of ``build`` for the reads, or a future of it."""

    answer = fetching.fetch(replicas, wishes, limits, build, session)
    found = finish(answer) if isinstance(answer, Generator) else answer
    return found.result() if isinstance(found, asyncio.Future) and found.done() else found  # type: ignore[return-value]


def read_all(replicas: ReplicaManager, wishes: Wishes, limits: FetchLimits) -> list[PartitionRead]:
    """The result of a fetch that does not wait."""
    found = fetch(replicas, wishes, limits._replace(max_wait_ms=0), list)
    assert isinstance(found, list)
    return found
