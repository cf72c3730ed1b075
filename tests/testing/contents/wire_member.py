"""A consumer on the wire: one connection that joins a group and receives or sends assignments."""

import asyncio
import struct
from typing import Any

from harness.client import Client
from kafkapy.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkapy.protocol.primitives import Message, Writer


def _versioned(message: Message) -> bytes:
    writer = Writer()
    message.write(writer, 0)
    return struct.pack(">h", 0) + writer.getvalue()


async def find_coordinator(client: Client, name: str, key_type: int = 0) -> None:
    """Repeat FindCoordinator until the group (transactional id: 1) has a coordinator; the first one makes its topic."""
    while (await client.ask(FindCoordinatorRequest(name, key_type), 1)).error_code:
        pass


class WireMember:
    """Member of a group that reads one topic."""

    def __init__(self, client: Client, group: str, topic: str) -> None:
        self.client = client
        self.group = group
        self.topic = topic
        self.member_id = ""
        self.generation = -1

    @classmethod
    async def connect(cls, port: int, group: str, topic: str) -> "WireMember":
        client = Client(*await asyncio.open_connection("127.0.0.1", port))
        await find_coordinator(client, group)
        return cls(client, group, topic)

    async def join(self) -> Any:
        subscription = _versioned(ConsumerProtocolSubscription([self.topic]))
        protocols = [JoinGroupRequestProtocol("range", subscription)]
        request = JoinGroupRequest(
            self.group, 6000, 6000, self.member_id, protocol_type="consumer", protocols=protocols
        )
        joined = await self.client.ask(request, 3)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        return joined

    async def sync(self, *partitions: int) -> Any:
        """Sync as the leader, with these partitions as its own assignment."""
        taken = ConsumerProtocolAssignmentTopicPartition(self.topic, list(partitions))
        assignment = SyncGroupRequestAssignment(self.member_id, _versioned(ConsumerProtocolAssignment([taken])))
        return await self.client.ask(
            SyncGroupRequest(self.group, self.generation, self.member_id, assignments=[assignment]), 2
        )

    async def commit(self, partition: int, offset: int) -> int:
        topic = OffsetCommitRequestTopic(self.topic, partitions=[OffsetCommitRequestPartition(partition, offset)])
        request = OffsetCommitRequest(self.group, self.generation, self.member_id, topics=[topic])
        answer = await self.client.ask(request, 5)
        return int(answer.topics[0].partitions[0].error_code)
