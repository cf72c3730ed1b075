from kafkapy.controller.context import ControllerContext, LiveBroker, Replica
from kafkapy.controller.requests import RequestBatch
from kafkapy.metadata.znodes import BrokerEndpoint, BrokerIdZNode, LeaderIsr, ReplicaAssignment
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.controller.trace import request_line

PARTITION = TopicPartition("t", 0)


def _context() -> ControllerContext:
    context = ControllerContext(1, 7, 7)
    for broker in (1, 2):
        endpoints = (
            BrokerEndpoint("OUTSIDE", "SASL_SSL", "outside", 1000 + broker),
            BrokerEndpoint("INSIDE", "PLAINTEXT", "inside", 2000 + broker),
        )
        context.brokers[broker] = LiveBroker(BrokerIdZNode(broker, endpoints, "r"), 100 + broker)
    context.assign("t", {0: ReplicaAssignment((1, 2, 3), (3,), (1,))})
    context.leadership[PARTITION] = LeaderIsr(2, 5, (2, 1), 4, 9)
    return context


def test_one_request_of_a_kind_per_broker_in_kafkas_order() -> None:
    batch = RequestBatch(_context(), "INSIDE")
    batch.add_stop_replica(Replica(PARTITION, 1), delete=True)
    batch.add_stop_replica(Replica(PARTITION, 1), delete=False)
    batch.add_stop_replica(Replica(PARTITION, 3), delete=True)
    batch.add_leader_and_isr([2, 3], PARTITION, is_new=True)
    batch.add_leader_and_isr([2], PARTITION)
    sent = finish(batch.take())
    assert [(outgoing.broker, request_line(outgoing.request), outgoing.version) for outgoing in sent] == [
        (2, "LAIR t-0 L2 le5 isr[2, 1] zkv9 r[1, 2, 3] new / [2]", 4),
        (1, "UM t-0 L2 le5 isr[2, 1] zkv9 off[3] / [1, 2]", 6),
        (2, "UM t-0 L2 le5 isr[2, 1] zkv9 off[3] / [1, 2]", 6),
        (1, "SR t-0 le5 delete=True", 3),
    ]
    assert finish(batch.take()) == []
    order, metadata = sent[0].request, sent[1].request
    assert isinstance(order, LeaderAndIsrRequest)
    assert (order.controller_id, order.controller_epoch, order.broker_epoch) == (1, 7, 102)
    state = order.topic_states[0].partition_states[0]
    assert (state.controller_epoch, state.adding_replicas, state.removing_replicas) == (4, [3], [1])
    assert [(leader.host_name, leader.port) for leader in order.live_leaders] == [("inside", 2002)]
    assert isinstance(metadata, UpdateMetadataRequest)
    assert [(found.listener, found.security_protocol) for found in metadata.live_brokers[0].endpoints] == [
        ("OUTSIDE", 3),
        ("INSIDE", 0),
    ]
    assert metadata.live_brokers[0].rack == "r"


def test_partitions_that_are_being_deleted_are_marked() -> None:
    context = _context()
    context.topics_to_delete.add("t")
    batch = RequestBatch(context, "MISSING")
    batch.add_update_metadata([1, 3], [PARTITION, TopicPartition("unknown", 0)])
    batch.add_stop_replica(Replica(PARTITION, 1), delete=False)
    assert [request_line(outgoing.request) for outgoing in finish(batch.take())] == [
        "UM t-0 L-2 le5 isr[2, 1] zkv9 off[3] / [1, 2]",
        "SR t-0 le-2 delete=False",
    ]


def test_a_leader_without_the_inter_broker_listener_shows_its_first() -> None:
    batch = RequestBatch(_context(), "MISSING")
    batch.add_leader_and_isr([1], PARTITION)
    order = finish(batch.take())[0].request
    assert isinstance(order, LeaderAndIsrRequest)
    assert order.live_leaders[0].host_name == "outside"


def test_a_partition_that_never_had_a_leader_has_no_epoch() -> None:
    context = _context()
    context.leadership.clear()
    batch = RequestBatch(context, "INSIDE")
    batch.add_stop_replica(Replica(PARTITION, 1), delete=False)
    assert [request_line(outgoing.request) for outgoing in finish(batch.take())] == ["SR t-0 le-1 delete=False"]


def test_what_is_gone_since_it_was_gathered_is_left_out() -> None:
    """An event that was given up has left its requests; then a broker has ended, and a topic was deleted."""
    context = _context()
    other = TopicPartition("u", 0)
    context.assign("u", {0: ReplicaAssignment((1, 2))})
    context.leadership[other] = LeaderIsr(1, 0, (1, 2), 4, 0)
    batch = RequestBatch(context, "INSIDE")
    batch.add_leader_and_isr([1, 2], PARTITION)
    batch.add_leader_and_isr([1, 2], other)
    batch.add_stop_replica(Replica(PARTITION, 2), delete=False)
    del context.brokers[2]
    del context.leadership[PARTITION]
    assert [(outgoing.broker, request_line(outgoing.request)) for outgoing in finish(batch.take())] == [
        (1, "LAIR u-0 L1 le0 isr[1, 2] zkv0 r[1, 2] / [1]"),
        (1, "UM u-0 L1 le0 isr[1, 2] zkv0 off[2] / [1]"),
    ]
