"""Records what Kafka 0.8.2's RangeAssignor answers for random groups: ``tests/clients/original/test_assignment.py``.

``python -m compat_tests.original_clients.record_assignments`` writes the table again; it needs Java and the jars.
"""

import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from compat_tests.original_clients.originals import OriginalClasses
from harness.real_kafka import ZooKeeper

TABLE = Path(__file__).resolve().parent.parent.parent / "tests/golden/range-assignments-0822.json"
SEED = 20_141_124
GROUPS = 60


def random_group(rng: random.Random) -> dict[str, Any]:
    """Topics with numbers of partitions, and consumers with their subscriptions."""
    names = ["a", "b", "a.b", "long-topic-name", "__consumer_offsets", "c_1"]
    topics = {name: rng.choice([1, 2, 3, 7, 12, 25]) for name in rng.sample(names, rng.randint(1, 6))}
    members = {}
    for number in range(rng.choice([1, 2, 3, 5, 11])):
        streams = rng.choice([1, 1, 2, 3, 12])
        kind = rng.choice(["static", "static", "white_list", "black_list"])
        if kind == "static":
            wanted = rng.sample([*topics, "absent"], rng.randint(1, min(3, len(topics))))
            subscription = {name: rng.choice([1, 2, streams]) for name in wanted}
        else:
            subscription = {rng.choice(["a.*", "a|b", ".*", "a\\.b", "[^_].*"]): streams}
        consumer = f"{rng.choice(['host', 'Host', 'h.example'])}-{rng.randrange(10**6)}-{number}"
        members[consumer] = {"version": 1, "subscription": subscription, "pattern": kind, "timestamp": "1"}
    return {"topics": topics, "members": members}


def answered(client: KazooClient, assignor: OriginalClasses, group: dict[str, Any]) -> dict[str, str]:
    """Write the group into the ZooKeeper's root and ask; nothing of it is left there."""
    for path in ("/consumers", "/brokers"):
        client.delete(path, recursive=True)
    client.create("/brokers/ids/0", b'{"host":"127.0.0.1","port":1,"version":1}', makepath=True)
    for topic, count in group["topics"].items():
        partitions = {str(number): [0] for number in range(count)}
        content = json.dumps({"version": 1, "partitions": partitions}).encode()
        client.create(f"/brokers/topics/{topic}", content, makepath=True)
    for consumer, registration in group["members"].items():
        client.create(f"/consumers/g/ids/{consumer}", json.dumps(registration).encode(), makepath=True)
    owners = assignor.owners("g", group["members"])
    return {f"{topic}/{partition}": owner for (topic, partition), owner in sorted(owners.items())}


def main() -> None:
    rng = random.Random(SEED)
    groups = [random_group(rng) for _ in range(GROUPS)]
    with ZooKeeper() as server:
        client = KazooClient(server.bootstrap)
        client.start()
        assignor = OriginalClasses(server.bootstrap)
        with closing(assignor.agent):
            for group in groups:
                group["owners"] = answered(client, assignor, group)
        client.stop()
    TABLE.write_text("[\n" + ",\n".join(json.dumps(group, separators=(",", ":")) for group in groups) + "\n]\n")


if __name__ == "__main__":
    main()
