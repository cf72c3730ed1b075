"""The nodes of Kafka's tree: brokers, the controller, the cluster, topics and configurations. One class per path.

Data is read by key, unknown keys are ignored and optional ones may be missing: other releases write other keys in
another order. ``encode`` writes the data of Apache Kafka 2.7. ``decode`` raises ValueError on data without a required
key.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, TypeVar
from urllib.parse import quote
from uuid import UUID, uuid4

from kafkapy.errors import BrokerError
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.types import TopicPartition, base64_id, id_of

PERSISTENT_PATHS: Final = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
)
"""The nodes that every broker creates at its start if they are missing, in Kafka's order."""


def encode_json(value: Mapping[str, Any]) -> bytes:
    """UTF-8 JSON without spaces, keys in the order given."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(data: bytes | None) -> dict[str, Any]:
    """The object in a node's data; raises ValueError when there is none."""
    value = json.loads(data or b"null")
    if isinstance(value, dict):
        return value
    raise ValueError(f"not a JSON object: {data!r}")


def required(value: Mapping[str, Any], key: str) -> Any:
    """The value of ``key``; raises ValueError if it is missing."""
    if key not in value:
        raise ValueError(f"no {key!r} in {dict(value)!r}")
    return value[key]


_T = TypeVar("_T")


class ForeignDataError(BrokerError, ValueError):
    """A node holds what no broker writes there; it is left as it is."""


def decoded(path: str, data: bytes | None, decode: Callable[[bytes | None], _T]) -> _T:
    """The result of ``decode`` for a node's data; raises ForeignDataError, which names the node."""
    try:
        return decode(data)
    except (ValueError, TypeError, AttributeError) as error:  # the last two for values of another type
        raise ForeignDataError(
            f"the node {path} in the cluster's metadata holds what no broker writes there, and is left as it is: "
            f"{str(data)[:200]} ({error})"
        ) from error


class BrokerEndpoint(NamedTuple):
    """An advertised listener: clients reach it at ``host:port``, speaking ``security_protocol``."""

    listener_name: str
    security_protocol: str
    host: str
    port: int


class BrokerIdsZNode:
    """``/brokers/ids``: its children are the live brokers."""

    PATH: Final = "/brokers/ids"


class BrokerIdZNode(NamedTuple):
    """``/brokers/ids/N``, ephemeral: a live broker. Its czxid is the broker epoch."""

    broker_id: int
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    timestamp_ms: int = -1
    jmx_port: int = -1

    @staticmethod
    def path(broker_id: int) -> str:
        """The path of broker ``broker_id``."""
        return f"/brokers/ids/{broker_id}"

    def encode(self) -> bytes:
        """Version 5, as from inter-broker protocol 2.7 on."""
        plain = next((end for end in self.endpoints if end.security_protocol == "PLAINTEXT"), None)
        value: dict[str, Any] = {
            "features": {},
            "listener_security_protocol_map": {end.listener_name: end.security_protocol for end in self.endpoints},
            "endpoints": [f"{end.listener_name}://{_bracketed(end.host)}:{end.port}" for end in self.endpoints],
            "jmx_port": self.jmx_port,
            "port": plain.port if plain else -1,
            "host": plain.host if plain else None,
            "version": 5,
            "timestamp": str(self.timestamp_ms),
        }
        if self.rack is not None:
            value["rack"] = self.rack
        return encode_json(value)

    @classmethod
    def decode(cls, broker_id: int, data: bytes | None) -> "BrokerIdZNode":
        """Any version from 1 (host and port alone) on."""
        value = decode_json(data)
        protocols = value.get("listener_security_protocol_map") or {}
        endpoints = value.get("endpoints")
        if endpoints is None:
            endpoints = [f"PLAINTEXT://{required(value, 'host')}:{required(value, 'port')}"]
        return cls(
            broker_id,
            tuple(_endpoint(str(text), protocols) for text in endpoints),
            value.get("rack"),
            int(value.get("timestamp", -1)),
            int(value.get("jmx_port", -1)),
        )


@dataclass(frozen=True, slots=True)
class ControllerZNode:
    """``/controller``, ephemeral: the elected broker."""

    broker_id: int
    timestamp_ms: int

    PATH: ClassVar[str] = "/controller"

    def encode(self) -> bytes:
        """Version 1; the timestamp is a string."""
        return encode_json({"version": 1, "brokerid": self.broker_id, "timestamp": str(self.timestamp_ms)})

    @classmethod
    def decode(cls, data: bytes | None) -> "ControllerZNode":
        """Versions 1 and 2."""
        value = decode_json(data)
        return cls(int(required(value, "brokerid")), int(value.get("timestamp", -1)))


class ControllerEpochZNode:
    """``/controller_epoch``: how many controllers there have been, in decimal."""

    PATH: Final = "/controller_epoch"

    @staticmethod
    def encode(epoch: int) -> bytes:
        """Plain text."""
        return str(epoch).encode()

    @staticmethod
    def decode(data: bytes | None) -> int:
        """Plain text; raises ValueError."""
        return int(data or b"")


class ClusterIdZNode:
    """``/cluster/id``: 16 random bytes in base64url without padding, made by the first broker."""

    PATH: Final = "/cluster/id"

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        """The version is a string here."""
        return encode_json({"version": "1", "id": cluster_id})

    @staticmethod
    def decode(data: bytes | None) -> str:
        """The id."""
        return str(required(decode_json(data), "id"))


class FeatureZNode:
    """``/feature``: finalized features by name; enabled and empty with inter-broker protocol 2.7.

    Version 1 has a range of levels for each feature, version 2 (Apache Kafka 3.3) one level.
    """

    PATH: Final = "/feature"
    ENABLED: Final = 1

    @classmethod
    def encode(cls, levels: Mapping[str, int] | None = None) -> bytes:
        """Version 1 without features, as every release reads it, else version 2."""
        return encode_json({"features": dict(levels or {}), "version": 2 if levels else 1, "status": cls.ENABLED})

    @classmethod
    def decode(cls, data: bytes | None) -> dict[str, int]:
        """The finalized level of each feature; of version 1 the highest one of the range."""
        value = decode_json(data)
        if value.get("status") != cls.ENABLED:
            return {}
        features = required(value, "features")
        if value.get("version") == 1:
            return {name: int(levels["max_version_level"]) for name, levels in features.items()}
        return {name: int(level) for name, level in features.items()}


@dataclass(frozen=True, slots=True)
class ProducerIdBlockZNode:
    """``/latest_producer_id_block``: the producer ids that ``broker_id`` may hand out, both ends included."""

    broker_id: int
    first: int
    last: int

    PATH: ClassVar[str] = "/latest_producer_id_block"

    def encode(self) -> bytes:
        """The ids are strings."""
        return encode_json(
            {"version": 1, "broker": self.broker_id, "block_start": str(self.first), "block_end": str(self.last)}
        )

    @classmethod
    def decode(cls, data: bytes | None) -> "ProducerIdBlockZNode | None":
        """None when no broker has claimed a block yet."""
        if not data:
            return None
        value = decode_json(data)
        return cls(
            int(required(value, "broker")), int(required(value, "block_start")), int(required(value, "block_end"))
        )


class IsrChangeNotificationZNode:
    """``/isr_change_notification/isr_change_N``, sequential: in-sync replicas that leaders have changed themselves.

    Leaders do so with an inter-broker protocol below 2.7-IV2; later ones ask the controller.
    """

    PATH: Final = "/isr_change_notification"
    SEQUENTIAL_PATH: Final = "/isr_change_notification/isr_change_"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        """Version 1."""
        return encode_json({"version": 1, "partitions": _listed(partitions)})

    @staticmethod
    def decode(data: bytes | None) -> list[TopicPartition]:
        """The partitions whose state nodes their leader has written."""
        return _partitions(decode_json(data))


@dataclass(frozen=True, slots=True)
class LogDirEventNotificationZNode:
    """``/log_dir_event_notification/log_dir_event_N``, sequential: a data directory of ``broker_id`` has failed."""

    broker_id: int

    PATH: ClassVar[str] = "/log_dir_event_notification"
    SEQUENTIAL_PATH: ClassVar[str] = "/log_dir_event_notification/log_dir_event_"
    FAILURE: ClassVar[int] = 1

    def encode(self) -> bytes:
        """Version 1."""
        return encode_json({"version": 1, "broker": self.broker_id, "event": self.FAILURE})

    @classmethod
    def decode(cls, data: bytes | None) -> "LogDirEventNotificationZNode":
        """The broker whose directory has failed."""
        return cls(int(required(decode_json(data), "broker")))


def _listed(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": found.topic, "partition": found.partition} for found in partitions]


def _partitions(value: Mapping[str, Any]) -> list[TopicPartition]:
    listed = required(value, "partitions")
    return [TopicPartition(str(required(found, "topic")), int(required(found, "partition"))) for found in listed]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _endpoint(text: str, protocols: Mapping[str, str]) -> BrokerEndpoint:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        raise ValueError(f"not LISTENER://host:port: {text!r}")
    return BrokerEndpoint(name, protocols.get(name, name), host.removeprefix("[").removesuffix("]"), int(port))


# Kafka's tree: topics, their partitions' states, and requests to the controller about them.


class ReplicaAssignment(NamedTuple):
    """The brokers of a partition, preferred leader first; while replicas move, which come and which go (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """Replicas are being moved."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas without the adding ones: a cancelled reassignment returns to them."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas without the removing ones: a completed reassignment leaves them."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    def reassigned(self, target: Sequence[int]) -> "ReplicaAssignment":
        """The assignment while replicas move to ``target``: its replicas first, then those that go."""
        origin = self.origin
        replicas = tuple(dict.fromkeys((*target, *origin)))
        before, after = set(origin), set(target)
        adding = tuple(broker for broker in replicas if broker not in before)
        return ReplicaAssignment(replicas, adding, tuple(broker for broker in replicas if broker not in after))


class LeaderIsr(NamedTuple):
    """The leader and the in-sync replicas of a partition; ``zk_version`` is the version of its node."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    zk_version: int = 0


class TopicsZNode:
    """``/brokers/topics``: its children are the topics."""

    PATH: Final = "/brokers/topics"


def new_topic_id() -> UUID:
    """A random id for a topic; like Kafka's, its text begins with no dash, which tools would take for an option."""
    while base64_id((made := uuid4()).bytes).startswith("-"):
        pass
    return made


class TopicZNode(NamedTuple):
    """``/brokers/topics/T``: the assignment of a topic, and its id if it has one (KIP-516).

    ``other`` keeps the keys that this release does not know.
    """

    partitions: Mapping[int, ReplicaAssignment]
    topic_id: UUID = ZERO_UUID
    other: Mapping[str, Any] = MappingProxyType({})

    @staticmethod
    def path(topic: str) -> str:
        """The path of the assignment of ``topic``."""
        return f"/brokers/topics/{topic}"

    def encode(self) -> bytes:
        """Version 2, 3 with an id, or the newer one that it was read with; the keys in the order of Kafka's."""
        partitions = {str(index): list(found.replicas) for index, found in self.partitions.items()}
        moving: dict[str, Any] = {
            "adding_replicas": {
                str(index): list(found.adding) for index, found in self.partitions.items() if found.adding
            },
            "removing_replicas": {
                str(index): list(found.removing) for index, found in self.partitions.items() if found.removing
            },
        }
        if self.topic_id == ZERO_UUID:
            value = {"version": 2, "partitions": partitions, **moving}
        else:
            value = {"partitions": partitions, "topic_id": base64_id(self.topic_id.bytes), **moving, "version": 3}
        return encode_json(value | dict(self.other))

    def with_partitions(self, changed: Mapping[int, ReplicaAssignment]) -> "TopicZNode":
        """The same topic with other assignments of some partitions, or with more of them."""
        return self._replace(partitions={**self.partitions, **changed})

    @classmethod
    def decode(cls, data: bytes | None) -> "TopicZNode":
        """Any version."""
        value = decode_json(data)
        adding, removing = value.get("adding_replicas") or {}, value.get("removing_replicas") or {}
        partitions = {
            int(index): ReplicaAssignment(tuple(replicas), tuple(adding.get(index, ())), tuple(removing.get(index, ())))
            for index, replicas in required(value, "partitions").items()
        }
        kept = {key: found for key, found in value.items() if key not in _ASSIGNMENT_KEYS}
        if kept:
            kept["version"] = value.get("version", 3)
        text = value.get("topic_id")
        return cls(partitions, ZERO_UUID if text is None else id_of(str(text)), kept)


_ASSIGNMENT_KEYS: Final = {"version", "partitions", "topic_id", "adding_replicas", "removing_replicas"}


class TopicPartitionsZNode:
    """``/brokers/topics/T/partitions``: its children are the partitions that the controller has started."""

    @staticmethod
    def path(topic: str) -> str:
        """The parent of the partitions of ``topic``."""
        return f"/brokers/topics/{topic}/partitions"


class TopicPartitionZNode:
    """``/brokers/topics/T/partitions/P``."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """The parent of the partition's state."""
        return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}"


class PartitionStateZNode:
    """``/brokers/topics/T/partitions/P/state``: leader and in-sync replicas, written by the controller."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """The path of the partition's state."""
        return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"

    @staticmethod
    def encode(state: LeaderIsr) -> bytes:
        """Version 1."""
        return encode_json(
            {
                "controller_epoch": state.controller_epoch,
                "leader": state.leader,
                "version": 1,
                "leader_epoch": state.leader_epoch,
                "isr": list(state.isr),
            }
        )

    @staticmethod
    def decode(data: bytes | None, zk_version: int) -> LeaderIsr:
        """``zk_version`` is the version of the node that held ``data``."""
        value = decode_json(data)
        return LeaderIsr(
            int(required(value, "leader")),
            int(required(value, "leader_epoch")),
            tuple(required(value, "isr")),
            int(required(value, "controller_epoch")),
            zk_version,
        )


class DeleteTopicsZNode:
    """``/admin/delete_topics``: its children are the topics to delete."""

    PATH: Final = "/admin/delete_topics"


class DeleteTopicZNode:
    """``/admin/delete_topics/T``, without data: asks the controller to delete a topic."""

    @staticmethod
    def path(topic: str) -> str:
        """The path whose creation requests the deletion of ``topic``."""
        return f"/admin/delete_topics/{topic}"


class PreferredElectionZNode:
    """``/admin/preferred_replica_election``: asks the controller for preferred leaders (legacy tool)."""

    PATH: Final = "/admin/preferred_replica_election"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        """Version 1."""
        return encode_json({"version": 1, "partitions": _listed(partitions)})

    @staticmethod
    def decode(data: bytes | None) -> list[TopicPartition]:
        """The partitions to elect preferred leaders for."""
        return _partitions(decode_json(data))


class ReassignPartitionsZNode:
    """``/admin/reassign_partitions``: asks the controller to move replicas (legacy tool)."""

    PATH: Final = "/admin/reassign_partitions"

    @staticmethod
    def encode(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
        """Version 1."""
        listed = [
            {"topic": found.topic, "partition": found.partition, "replicas": list(replicas)}
            for found, replicas in targets.items()
        ]
        return encode_json({"version": 1, "partitions": listed})

    @staticmethod
    def decode(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
        """Partition → the replicas that it shall have."""
        return {
            TopicPartition(str(required(found, "topic")), int(required(found, "partition"))): tuple(
                int(broker) for broker in required(found, "replicas")
            )
            for found in required(decode_json(data), "partitions")
        }


# Kafka's tree: dynamic configurations, and the notes that announce changes to brokers.


DEFAULT_ENTITY: Final = "<default>"

_KNOWN_NAMES: Final = 1024
"""The name of the node that configures every broker (or client id, or user) that has no value of its own."""


@lru_cache(maxsize=_KNOWN_NAMES)
def tree_name(name: str) -> str:
    """Return the name of a user or client in the tree: encoded as in an address of the web (``Sanitizer``)."""
    return quote(name, safe="").replace("~", "%7E")


class ConfigEntity(NamedTuple):
    """The owner of a configuration: ``kind`` is topics, brokers, clients, users or groups; ``name`` as in the tree."""

    kind: str
    name: str

    @classmethod
    def topic(cls, name: str) -> "ConfigEntity":
        """The overrides of a topic."""
        return cls("topics", name)

    @classmethod
    def user(cls, name: str) -> "ConfigEntity":
        """The SCRAM credentials and quotas of a user, whose name is encoded as in an address of the web."""
        return cls("users", tree_name(name))

    @classmethod
    def group(cls, group_id: str) -> "ConfigEntity":
        """The overrides of a group, whose id is encoded as in an address of the web."""
        return cls("groups", tree_name(group_id))

    @classmethod
    def client(cls, user: str | None, client_id: str | None) -> "ConfigEntity":
        """The quotas of a user, a client id or both, by their names in the tree; one of them is not None."""
        if user is None:
            return cls("clients", f"{client_id}")
        return cls("users", user if client_id is None else f"{user}/clients/{client_id}")

    @property
    def client_names(self) -> tuple[str | None, str | None]:
        """The user and the client id of a configuration of users or clients, as they are in the tree."""
        if self.kind == "clients":
            return None, self.name
        user, _, client_id = self.name.partition("/clients/")
        return user, client_id or None

    @classmethod
    def broker(cls, broker_id: int | None) -> "ConfigEntity":
        """The dynamic configuration of one broker, or (None) of all of them."""
        return cls("brokers", DEFAULT_ENTITY if broker_id is None else str(broker_id))


class ConfigZNode:
    """``/config/<kind>/<name>``: key → value, all strings; topics always have one, if only an empty one."""

    @staticmethod
    def kind_path(kind: str) -> str:
        """The parent of all configurations of a kind."""
        return f"/config/{kind}"

    @staticmethod
    def path(entity: ConfigEntity) -> str:
        """The path of an entity's configuration."""
        return f"/config/{entity.kind}/{entity.name}"

    @staticmethod
    def encode(config: Mapping[str, str]) -> bytes:
        """Version 1."""
        return encode_json({"version": 1, "config": dict(config)})

    @staticmethod
    def decode(data: bytes | None) -> dict[str, str]:
        """No data, as the parents of nested entities have it, is an empty configuration."""
        if not data:
            return {}
        return {str(key): str(value) for key, value in (decode_json(data).get("config") or {}).items()}


class ConfigChangesZNode:
    """``/config/changes``: its children are the notes, sequential, kept for 15 minutes."""

    PATH: Final = "/config/changes"
    CHILD: Final = "config_change_"

    @classmethod
    def child_path(cls) -> str:
        """The path of the next note, without the ten digits that the store adds."""
        return f"{cls.PATH}/{cls.CHILD}"

    @staticmethod
    def encode(entity: ConfigEntity) -> bytes:
        """Version 2: the entity's path below ``/config``."""
        return encode_json({"version": 2, "entity_path": f"{entity.kind}/{entity.name}"})

    @staticmethod
    def decode(data: bytes | None) -> ConfigEntity:
        """Versions 1 (type and name) and 2 (path)."""
        value = decode_json(data)
        if "entity_path" in value:
            kind, _, name = str(value["entity_path"]).partition("/")
            return ConfigEntity(kind, name)
        return ConfigEntity(str(required(value, "entity_type")), str(required(value, "entity_name")))


class GroupConfigChangesZNode(ConfigChangesZNode):
    """``/config/group_changes``: the notes about groups, of which brokers of Apache Kafka on ZooKeeper know nothing.

    They would stop at a note of a kind that they do not know, and read no later ones.
    """

    PATH: Final = "/config/group_changes"  # type: ignore[misc]  # not final for this class
