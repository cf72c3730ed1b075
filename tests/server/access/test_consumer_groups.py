"""Members of consumer groups see, and get by regular expressions, the topics that they may describe."""

import asyncio
from pathlib import Path

from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.server.access.guarded import guarded_broker
from tests.server.harness import run


def test_members_of_a_consumer_group_are_hidden_with_their_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await guarded.admin.create_topic("t")
            await guarded.admin.ask(FindCoordinatorRequest("g", 0), 3)
            joined = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 60_000, ["t"], topic_partitions=[])
            assert (await guarded.admin.ask(joined, 1)).error_code == 0
            request = ConsumerGroupDescribeRequest(["g"], include_authorized_operations=True)
            guarded.allow((AclOperation.DESCRIBE, AclResourceType.GROUP, "g"))
            (hidden,) = (await guarded.alice.ask(request, 1)).groups
            assert (hidden.error_code, hidden.members) == (29, [])
            guarded.allow(
                (AclOperation.DESCRIBE, AclResourceType.GROUP, "g"), (AclOperation.DESCRIBE, AclResourceType.TOPIC, "t")
            )
            (shown,) = (await guarded.alice.ask(request, 1)).groups
            assert [member.member_id for member in shown.members] == ["m"]
            assert shown.authorized_operations == 1 << AclOperation.DESCRIBE

    run(scenario())


def test_an_expression_selects_topics_that_the_member_may_describe(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await guarded.admin.create_topic("t1")
            await guarded.admin.create_topic("t2")
            await guarded.admin.ask(FindCoordinatorRequest("g", 0), 3)
            guarded.allow(
                (AclOperation.READ, AclResourceType.GROUP, "g"), (AclOperation.DESCRIBE, AclResourceType.TOPIC, "t2")
            )
            joined = ConsumerGroupHeartbeatRequest(
                "g", "m", 0, None, None, 60_000, None, subscribed_topic_regex="t.*", topic_partitions=[]
            )
            member = await guarded.alice.ask(joined, 1)
            assert (member.error_code, member.assignment.topic_partitions) == (0, [])
            while not (member.assignment and member.assignment.topic_partitions):
                await asyncio.sleep(0.05)
                member = await guarded.alice.ask(ConsumerGroupHeartbeatRequest("g", "m", member.member_epoch), 1)
            request = ConsumerGroupDescribeRequest(["g"])
            (described,) = (await guarded.admin.ask(request, 1)).groups
            assigned = described.members[0].assignment.topic_partitions
            assert [each.topic_name for each in assigned] == ["t2"]

    run(scenario())
