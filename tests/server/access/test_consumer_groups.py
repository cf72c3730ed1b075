"""ConsumerGroupDescribe shows the members of a group to clients that may describe their topics too."""

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
