"""The rights of the only client, ``User:ANONYMOUS``, on a broker of either kind: ACLs in the broker's ZooKeeper.

They are written by kafkapy's ``AclStore``, so Apache Kafka reads kafkapy's nodes and notes.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final

from harness.cases.access_cases import Right, on_cluster, on_group, on_id, on_topic
from harness.cases.zookeeper_connections import new_store
from harness.process import wait_for
from harness.wire import Wire
from kafkapy.clock import SystemClock
from kafkapy.metadata.acls import AclStore
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.security.acls import AclEntry, ResourcePattern
from kafkapy.security.authorizer import AclAuthorizer

CLIENT: Final = "User:ANONYMOUS"
EVERYTHING: Final = (
    *(right(AclOperation.ALL, "*") for right in (on_topic, on_group, on_id)),
    on_cluster(AclOperation.ALL),
)
NO_TOPIC: Final = 29

Entries = dict[ResourcePattern, list[AclEntry]]


class Rights:
    """The ACLs of one broker."""

    def __init__(self, port: int, chroot: str, bootstrap: str) -> None:
        self._port = port
        self._chroot = chroot
        self._bootstrap = bootstrap
        self._numbers = itertools.count()

    def allow(self, *rights: Right) -> None:
        """Let the client have these rights and no others; returns when the broker knows it.

        The last change denies a right, which an earlier one may have allowed for all topics; the change before it
        allows one.
        """
        number = next(self._numbers)
        allowed, denied = f"allowed-{number}", f"denied-{number}"
        wanted: Entries = {}
        for operation, kind, name in (*rights, on_topic(AclOperation.DESCRIBE, allowed)):
            entry = AclEntry(CLIENT, "127.0.0.1", operation, AclPermissionType.ALLOW)
            wanted.setdefault(ResourcePattern(kind, name, AclPatternType.LITERAL), []).append(entry)
        last = ResourcePattern(AclResourceType.TOPIC, denied, AclPatternType.LITERAL)
        wanted[last] = [AclEntry(CLIENT, "127.0.0.1", AclOperation.DESCRIBE, AclPermissionType.DENY)]
        self.write(wanted)
        topics = [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)]) for name in (allowed, denied)]

        def is_known() -> bool:
            with Wire(self._bootstrap) as wire:
                answer = wire.ask(ListOffsetsRequest(-1, topics=topics), 5)
            codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
            return bool(codes[allowed] != NO_TOPIC and codes[denied] == NO_TOPIC)

        assert wait_for(is_known, 30), "the broker does not read the ACLs"

    def write(self, wanted: Entries) -> None:
        """Replace all entries in the tree."""
        asyncio.run(self._with_store(lambda acls: _replace_all(acls, wanted)))

    def read(self) -> dict[ResourcePattern, set[AclEntry]]:
        """Return all entries in the tree."""

        async def entries(acls: AclStore) -> Any:
            return {pattern: set(acls.authorizer.entries(pattern)) for pattern in acls.authorizer.patterns()}

        found: dict[ResourcePattern, set[AclEntry]] = asyncio.run(self._with_store(entries))
        return found

    async def _with_store(self, work: Callable[[AclStore], Any]) -> Any:
        store = new_store(self._port, self._chroot)
        await store.open()
        acls = AclStore(SystemClock(), store, AclAuthorizer())
        try:
            await acls.start()
            return await work(acls)
        finally:
            await acls.stop()
            await store.close()


async def _replace_all(acls: AclStore, wanted: Entries) -> None:
    gone: Iterable[ResourcePattern] = [each for each in acls.authorizer.patterns() if each not in wanted]
    for pattern in (*gone, *wanted):
        await acls.change(pattern, _replacing(wanted.get(pattern, [])))


def _replacing(entries: list[AclEntry]) -> Any:
    async def update(_: object) -> list[AclEntry]:
        return entries

    return update
