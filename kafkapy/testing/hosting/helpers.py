"""Helpers of a test's broker: they run on the broker's event loop and do not use its sockets."""

from collections.abc import Mapping

from kafkapy.metadata.topic_rules import INTERNAL_TOPICS
from kafkapy.records.record import Record
from kafkapy.testing.contents import groups, records
from kafkapy.testing.contents.groups import GroupMember
from kafkapy.testing.contents.records import RecordSelection, TopicRecord
from kafkapy.testing.contents.topics import TopicShape
from kafkapy.testing.hosting.hosted_broker import HostedBroker
from kafkapy.testing.hosting.settings import texts
from kafkapy.types import TopicPartition


class Helpers:
    """The helpers; ``Broker`` has methods of the same names with their documentation."""

    def __init__(self, host: HostedBroker) -> None:
        self._host = host

    # topics

    async def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, object], replication_factor: int | None
    ) -> None:
        """See ``Broker.create_topic``."""
        _ = self._host.services
        await self._host.create_topic(name, TopicShape(partitions, replication_factor, texts(configs)))

    async def delete_topic(self, name: str) -> None:
        """See ``Broker.delete_topic``."""
        records.logs_of(self._host.services, name)
        await self._host.delete_topic(name)

    async def topics(self) -> dict[str, int]:
        """See ``Broker.topics``."""
        found = self._host.services.metadata.image.topics
        return {name: len(topic.partitions) for name, topic in sorted(found.items()) if name not in INTERNAL_TOPICS}

    # records

    async def produce(self, topic: str, partition: int | None, record: Record) -> TopicRecord:
        """See ``Broker.produce``."""
        services = self._host.services
        logs = records.logs_of(services, topic, partition)
        index = partition
        if index is None:
            index = records.place(record.key, len(logs))
        stamped = record if record.timestamp >= 0 else record._replace(timestamp=services.clock.now_ms())
        offset = await records.produce(self._host.requests, TopicPartition(topic, index), stamped)
        return TopicRecord(topic, index, offset, stamped.timestamp, record.key, record.value, record.headers)

    async def records(self, reading: RecordSelection) -> list[TopicRecord]:
        """See ``Broker.records``."""
        return await records.read(self._host.services, reading)

    async def wait_for_records(self, reading: RecordSelection, count: int, timeout_s: float) -> list[TopicRecord]:
        """See ``Broker.wait_for_records``."""
        return await records.wait_for(self._host.services, reading, count, timeout_s)

    # groups

    async def groups(self) -> list[str]:
        """See ``Broker.groups``."""
        return groups.names(self._host.services)

    async def committed(self, group: str) -> dict[TopicPartition, int]:
        """See ``Broker.committed``."""
        return groups.committed(self._host.services, group)

    async def lag(self, group: str) -> dict[TopicPartition, int]:
        """See ``Broker.lag``."""
        return groups.lag(self._host.services, group)

    async def wait_until_stable(self, group: str, members: int | None, timeout_s: float) -> list[GroupMember]:
        """See ``Broker.wait_until_stable``."""
        return await groups.stable(self._host.services, group, members, timeout_s)

    async def wait_until_caught_up(self, group: str, timeout_s: float) -> None:
        """See ``Broker.wait_until_caught_up``."""
        await groups.caught_up(self._host.services, group, timeout_s)
