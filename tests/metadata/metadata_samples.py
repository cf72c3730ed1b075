"""A cluster's metadata as Apache Kafka 2.7.2 writes it to ZooKeeper."""

from kafkapy.metadata.exchange.metadata_tree import MetadataTree

CLUSTER_ID = "o2tiW_b9QVyBj9RJPsfm6Q"
NODES: dict[str, bytes | None] = {
    "/admin": None,
    "/admin/delete_topics": None,
    "/brokers/seqid": None,
    "/brokers/topics": None,
    "/brokers/topics/flights": (
        b'{"version":2,"partitions":{"0":[1],"1":[1]},"adding_replicas":{},"removing_replicas":{}}'
    ),
    "/brokers/topics/flights/partitions": None,
    "/brokers/topics/flights/partitions/0": None,
    "/brokers/topics/flights/partitions/0/state": (
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}'
    ),
    "/brokers/topics/flights/partitions/1": None,
    "/brokers/topics/flights/partitions/1/state": (
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    ),
    "/cluster": None,
    "/cluster/id": b'{"version":"1","id":"' + CLUSTER_ID.encode() + b'"}',
    "/config": None,
    "/config/brokers": None,
    "/config/brokers/<default>": b'{"version":1,"config":{"log.cleaner.threads":"2"}}',
    "/config/changes": None,
    "/config/clients": None,
    "/config/topics": None,
    "/config/topics/flights": b'{"version":1,"config":{"cleanup.policy":"compact"}}',
    "/config/users": None,
    "/config/users/bob": None,
    "/config/users/bob/clients": None,
    "/config/users/bob/clients/c": b'{"version":1,"config":{"producer_byte_rate":"1000"}}',
    "/consumers": None,
    "/controller_epoch": b"7",
    "/feature": b'{"features":{},"version":1,"status":1}',
    "/kafka-acl": None,
    "/kafka-acl/Topic": None,
    "/kafka-acl/Topic/flights": b'{"version":1,"acls":[]}',
    "/latest_producer_id_block": b'{"version":1,"broker":1,"block_start":"2000","block_end":"2999"}',
}


def tree() -> MetadataTree:
    """The sample; one broker id has been generated."""
    return MetadataTree(NODES, 1)


def without(*paths: str) -> MetadataTree:
    """The sample without these nodes and the nodes below them."""
    gone = {path for path in NODES for start in paths if path == start or path.startswith(start + "/")}
    return MetadataTree({path: data for path, data in NODES.items() if path not in gone}, 1)
