"""Members of consumer groups see, and get by regular expressions, the topics that they may describe."""

import asyncio
from pathlib import Path
from typing import Final

from kafkapy.protocol.constants import AclOperation, AclResourceType, ResourceType
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.access.guarded import guarded_broker
from tests.server.harness import run

GROUP_CONFIG: Final = ResourceType.GROUP


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


def test_the_configuration_of_a_group_needs_rights_on_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            described = DescribeConfigsRequest([DescribeConfigsResource(GROUP_CONFIG, each) for each in ("g", "h")])
            changes = [AlterableConfig("consumer.session.timeout.ms", 0, "50000")]
            altered = IncrementalAlterConfigsRequest(
                [AlterConfigsResource(GROUP_CONFIG, each, changes) for each in ("g", "h")]
            )
            guarded.allow((AclOperation.ALTER_CONFIGS, AclResourceType.GROUP, "g"))
            found = (await guarded.alice.ask(described, 3)).results
            assert [(each.resource_name, each.error_code, len(each.configs)) for each in found] == [
                ("g", 0, 3),
                ("h", 30, 0),
            ]
            assert found[1].error_message == "Group authorization failed."
            answers = (await guarded.alice.ask(altered, 1)).responses
            assert [(each.resource_name, each.error_code) for each in answers] == [("g", 0), ("h", 30)]
            guarded.allow((AclOperation.DESCRIBE_CONFIGS, AclResourceType.GROUP, "g"))
            answers = (await guarded.alice.ask(altered, 1)).responses
            assert {each.error_code for each in answers} == {30}

    run(scenario())
