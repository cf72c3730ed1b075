"""Newer requests over plain sockets: groups of KIP-848, transactions of version 2, flexible versions of old ones.

`python -m bench.clients.newer requests|settle|transact '{"port": …}'`; its last line of output is a JSON object.
"""

import json
import select
import socket
import sys
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any
from uuid import UUID, uuid4

from bench.clients.groups import ask, decoded
from bench.clients.raw import ANSWER_TIMEOUT_S, VALUE, connect, frame, receive, round_trips
from bench.clients.small import LARGE_SIZE
from harness.measure import percentile
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.records.record import Record, encode_batch

HEARTBEAT, PRODUCE, END, INIT, FIND = 1, 12, 5, 5, 3
GROUP_KEY, TRANSACTION_KEY = 0, 1
RETRY_S = 0.005
RETRIED = (14, 15, 16, 19, 51)
WARM_TRANSACTIONS = 20
DECODED_EVERY = 32
PARTITIONS_EACH = 2
"""Partitions of each member when a group has settled."""
Metrics = dict[str, float]


def prepare(connection: socket.socket, key_type: int, name: str) -> None:
    """Wait until the group or the transactional id has its coordinator."""
    request = FindCoordinatorRequest(name, key_type)
    while ask(connection, request, FIND).error_code:
        time.sleep(RETRY_S)


# requests that are repeated


def request_of(kind: str, topic: str, connection: socket.socket, number: int) -> Any:
    """The request that one connection repeats."""
    if kind == "produce":
        return produce_request(topic, encode_batch([Record(None, VALUE, timestamp=int(1000 * time.time()))]), acks=1)
    if kind == "fetch":
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=LARGE_SIZE)
        topics = [FetchTopic(topic, partitions=[partition])]
        return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=LARGE_SIZE, session_epoch=-1, topics=topics)
    if kind == "metadata":
        return MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    group = f"beats-{time.time_ns()}-{number}"
    prepare(connection, GROUP_KEY, group)
    joining = ConsumerGroupHeartbeatRequest(
        group, str(uuid4()), 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[topic], topic_partitions=[]
    )
    while (answer := ask(connection, joining, HEARTBEAT)).error_code in RETRIED:
        time.sleep(RETRY_S)
    return ConsumerGroupHeartbeatRequest(group, answer.member_id, answer.member_epoch)


def produce_request(topic: str, batch: bytes, acks: int, transactional_id: str | None = None) -> ProduceRequest:
    """A batch for the first partition."""
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    return ProduceRequest(transactional_id, acks, 5_000, [data])


def error_code_of(answer: Any) -> int:
    """The error code of a response, or of its only partition."""
    if hasattr(answer, "topics") and hasattr(answer, "brokers"):
        return int(answer.topics[0].error_code)
    if hasattr(answer, "responses"):
        topic = answer.responses[0]
        partition = (topic.partition_responses if hasattr(topic, "partition_responses") else topic.partitions)[0]
        return int(partition.error_code)
    return int(answer.error_code)


def requests(port: int, topic: str, kind: str, version: int, connections: int, requests: int) -> Metrics:
    """Send the requests, one in flight on each connection; times in µs."""
    sockets = [connect(port) for _ in range(connections)]
    asked = [request_of(kind, topic, each, number) for number, each in enumerate(sockets)]
    key = ApiKey(asked[0].API_KEY)

    sizes: list[int] = []

    def check(answer: bytes) -> None:
        """Decode an answer of another size than the one before, and some others."""
        sizes.append(len(answer))
        if len(sizes) % DECODED_EVERY == 1 or sizes[-1] != sizes[-2]:
            code = error_code_of(decoded(answer, key, version))
            if code:
                raise SystemExit(f"{kind} was answered with error {code}")

    frames = [(each, repeat(frame(key, request, version))) for each, request in zip(sockets, asked, strict=True)]
    waited = round_trips(frames, requests, check)
    for each in sockets:
        each.close()
    return {"p50_us": percentile(waited, 0.5), "p99_us": percentile(waited, 0.99)}


# groups


class ConsumerMember:
    """One member on its own connection, which sends the next heartbeat as soon as it has the answer to the last."""

    def __init__(self, port: int, group: str, topic: str) -> None:
        self.connection = connect(port)
        self.epoch = 0
        self.owned: dict[UUID, frozenset[int]] = {}
        self._member_id = str(uuid4())
        self._group = group
        self._topic = topic
        self._said: dict[UUID, frozenset[int]] | None = None

    def beat(self) -> None:
        """Send a heartbeat, with the partitions if they have changed."""
        request = ConsumerGroupHeartbeatRequest(self._group, self._member_id, self.epoch)
        if self.epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names = 60_000, [self._topic]
        if self._said != self.owned:
            request.topic_partitions = [TopicPartitions(key, sorted(each)) for key, each in self.owned.items()]
            self._said = dict(self.owned)
        self.connection.sendall(frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, HEARTBEAT))

    def take(self) -> None:
        """Read an answer."""
        answer = decoded(receive(self.connection), ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT)
        if answer.error_code in RETRIED:
            self._said = None
            return
        if answer.error_code:
            raise SystemExit(f"a heartbeat was answered with error {answer.error_code}: {answer.error_message}")
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            parts = answer.assignment.topic_partitions
            self.owned = {each.topic_id: frozenset(each.partitions) for each in parts}


def settle(port: int, topic: str, members: int, groups: int) -> Metrics:
    """Let groups settle one after the other; the median time from the last join to the whole assignment, in ms."""
    return {"settle_ms": percentile([_settle_once(port, topic, members) for _ in range(groups)], 0.5)}


def _settle_once(port: int, topic: str, count: int) -> float:
    group = f"settle-{time.time_ns()}"
    with connect(port) as connection:
        prepare(connection, GROUP_KEY, group)
    members = {each.connection.fileno(): each for each in (ConsumerMember(port, group, topic) for _ in range(count))}
    poll = select.epoll()
    for place, member in members.items():
        poll.register(place, select.EPOLLIN)
        while member.epoch == 0:
            member.beat()
            member.take()
    joined_s = time.perf_counter()
    for member in members.values():
        member.beat()
    while not _has_all(members.values()):
        if time.perf_counter() > joined_s + ANSWER_TIMEOUT_S:
            raise SystemExit(f"{count} members did not settle in {ANSWER_TIMEOUT_S:.0f} s")
        for place, _ in poll.poll(ANSWER_TIMEOUT_S):
            members[place].take()
            members[place].beat()
    elapsed_ms = 1000 * (time.perf_counter() - joined_s)
    for member in members.values():
        member.connection.close()
    return elapsed_ms


def _has_all(members: Any) -> bool:
    """Whether all members have the same epoch and the same number of partitions, each its own."""
    if len({member.epoch for member in members}) > 1:
        return False
    owned = [[each for numbers in member.owned.values() for each in numbers] for member in members]
    different = {each for numbers in owned for each in numbers}
    return all(len(each) == PARTITIONS_EACH for each in owned) and len(different) == PARTITIONS_EACH * len(owned)


# transactions


def transact(port: int, topic: str, transactions: int) -> Metrics:
    """Commit transactions of one record each, one after the other; how long one takes, in ms."""
    name = f"bench-{time.time_ns()}"
    waited = []
    with connect(port) as connection:
        prepare(connection, TRANSACTION_KEY, name)
        answer = _ask_again(connection, InitProducerIdRequest(name, 60_000), INIT)
        producer = answer.producer_id, answer.producer_epoch
        for _ in range(WARM_TRANSACTIONS + transactions):
            began_s = time.perf_counter()
            record = Record(None, VALUE, timestamp=int(1000 * time.time()))
            batch = encode_batch(
                [record], producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, is_transactional=True
            )
            _ask_again(connection, produce_request(topic, batch, -1, name), PRODUCE)
            answer = _ask_again(connection, EndTxnRequest(name, *producer, committed=True), END)
            producer = answer.producer_id, answer.producer_epoch
            waited.append(1000 * (time.perf_counter() - began_s))
    return {"p50": percentile(waited[WARM_TRANSACTIONS:], 0.5)}


def _ask_again(connection: socket.socket, request: Message, version: int) -> Any:
    """The answer without an error; a request is repeated for those that pass."""
    while code := error_code_of(answer := ask(connection, request, version)):
        if code not in RETRIED:
            raise SystemExit(f"{type(request).__name__} was answered with error {code}")
        time.sleep(RETRY_S / 10)
    return answer


MODES: dict[str, Callable[..., Metrics]] = {"requests": requests, "settle": settle, "transact": transact}

if __name__ == "__main__":
    print(json.dumps(MODES[sys.argv[1]](**json.loads(sys.argv[2]))))
