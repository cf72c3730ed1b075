"""Small requests as ready-made frames over plain sockets, one in flight on each connection.

`python -m bench.small_client '{"port": …, "topic": …, "kind": "heartbeat", "connections": …, "requests": …}'`; its last
line of output is a JSON object.
"""

import json
import socket
import sys
import time
from collections.abc import Callable
from itertools import count

from bench.group_client import BEAT, COMMIT, Member, ask, commit_request
from bench.measure import percentile
from bench.raw_client import connect, error_of, frame, produce_frame, round_trips
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

METADATA, LIST_OFFSETS = 8, 5
LATEST = -1
NO_ERROR = b"\0\0"


def frame_of(kind: str, connection: socket.socket, port: int, topic: str, number: int) -> bytes:
    """The request that one connection repeats."""
    if kind == "produce":
        return produce_frame(topic)
    if kind == "commit":
        return frame(ApiKey.OFFSET_COMMIT, commit_request(f"commits-{number}", topic), COMMIT)
    if kind == "heartbeat":
        member = settled_member(port, f"beats-{number}")
        request = HeartbeatRequest(f"beats-{number}", member.generation, member.member_id)
        return frame(ApiKey.HEARTBEAT, request, BEAT)
    if kind == "metadata":
        asked = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        error = ask(connection, asked, METADATA).topics[0].error_code
        request_frame = frame(ApiKey.METADATA, asked, METADATA)
    else:
        listed = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, LATEST)])])
        error = ask(connection, listed, LIST_OFFSETS).topics[0].partitions[0].error_code
        request_frame = frame(ApiKey.LIST_OFFSETS, listed, LIST_OFFSETS)
    if error:
        raise SystemExit(f"{kind} was answered with error {error}")
    return request_frame


def settled_member(port: int, group: str) -> Member:
    """The only member of a group, which has its part."""
    member = Member(port, group)
    member.join()
    while not member.is_settled:
        member.take()
    return member


def check_of(kind: str, topic: str) -> Callable[[bytes], None]:
    """A function that ends the program for an answer with an error."""
    first: list[bytes] = []

    def check(answer: bytes) -> None:
        if kind == "produce":
            is_good = error_of(answer, topic) == 0
        elif kind in ("commit", "heartbeat"):
            is_good = answer[-2:] == NO_ERROR
        else:  # the first was decoded, and nothing changes
            first.append(answer) if not first else None
            is_good = answer == first[0]
        if not is_good:
            raise SystemExit(f"{kind} was answered with an error")

    return check


def run(port: int, topic: str, kind: str, connections: int, requests: int) -> dict[str, float]:
    """Send the requests and wait for every answer; round trips in µs."""
    sockets = [connect(port) for _ in range(connections)]
    places = zip(sockets, count(), strict=False)
    frames = [(each, frame_of(kind, each, port, topic, number)) for each, number in places]
    began_s = time.perf_counter()
    waited = round_trips(frames, requests, check_of(kind, topic))
    elapsed_s = time.perf_counter() - began_s
    for each in sockets:
        each.close()
    return {"per_s": requests / elapsed_s, "p50_us": percentile(waited, 0.5), "p99_us": percentile(waited, 0.99)}


if __name__ == "__main__":
    print(json.dumps(run(**json.loads(sys.argv[1]))))
