"""Requests and writes as short lines, in the words of the traces that were taken of real clusters."""

from collections.abc import Iterable

from kafkapy.metadata.store import Create, Delete, Operation
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest


def request_line(request: Message) -> str:
    """E.g. ``LAIR rf3-0 L3 le0 isr[3, 1, 2] zkv0 r[3, 1, 2] new / [3]`` (the live leaders, or brokers, at the end)."""
    match request:
        case LeaderAndIsrRequest():
            states = [
                f"{topic.topic_name}-{state.partition_index} L{state.leader} le{state.leader_epoch} isr{state.isr} "
                f"zkv{state.partition_epoch} r{state.replicas}{' new' if state.is_new else ''}"
                for topic in request.topic_states
                for state in topic.partition_states
            ]
            leaders = sorted(leader.broker_id for leader in request.live_leaders)
            return f"LAIR {'; '.join(sorted(states))} / {leaders}"
        case UpdateMetadataRequest():
            states = [
                f"{topic.topic_name}-{state.partition_index} L{state.leader} le{state.leader_epoch} isr{state.isr} "
                f"zkv{state.zk_version} off{state.offline_replicas}"
                for topic in request.topic_states
                for state in topic.partition_states
            ]
            return f"UM {'; '.join(sorted(states))} / {sorted(broker.id for broker in request.live_brokers)}"
        case StopReplicaRequest():
            states = [
                f"{topic.topic_name}-{state.partition_index} le{state.leader_epoch} delete={state.delete_partition}"
                for topic in request.topic_states
                for state in topic.partition_states
            ]
            return f"SR {'; '.join(sorted(states))}"
        case _:
            raise AssertionError(f"the controller does not send {request!r}")


def to_broker(requests: Iterable[tuple[int, int, Message]], broker: int) -> list[str]:
    return [request_line(request) for target, _, request in requests if target == broker]


def write_line(operation: Operation) -> str:
    """E.g. ``create /brokers/topics/t/partitions/0/state {"controller_epoch":1,…}``."""
    if isinstance(operation, Delete):
        return f"delete {operation.path}"
    verb = "create" if isinstance(operation, Create) else "set"
    data = getattr(operation, "data", None)
    return f"{verb} {operation.path} {'' if data is None else data.decode()}".rstrip()
