"""Kafka's tree: brokers, the controller, and what is there once per cluster. One class per path.

Everything is read by key, unknown keys are ignored and optional ones may be missing: other releases write other
keys in another order. What is written is what Apache Kafka 2.7 writes. ``decode`` raises ValueError on data that
lacks what the node is for. Topics are in ``topic_znodes``, configurations in ``config_znodes``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

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
"""What every broker makes sure of when it starts, in Kafka's order."""


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
    """What stands under ``key``; raises ValueError when nothing does."""
    if key not in value:
        raise ValueError(f"no {key!r} in {dict(value)!r}")
    return value[key]


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
        """Where broker ``broker_id`` registers."""
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
    """``/feature``: finalized features; enabled and empty with inter-broker protocol 2.7."""

    PATH: Final = "/feature"
    ENABLED: Final = 1

    @classmethod
    def encode(cls) -> bytes:
        """Version 1, no features."""
        return encode_json({"features": {}, "version": 1, "status": cls.ENABLED})


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
    """``/isr_change_notification``: old leaders (protocol below 2.7) leave a note for each change here."""

    PATH: Final = "/isr_change_notification"


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
        """Who it was."""
        return cls(int(required(decode_json(data), "broker")))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _endpoint(text: str, protocols: Mapping[str, str]) -> BrokerEndpoint:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        raise ValueError(f"not LISTENER://host:port: {text!r}")
    return BrokerEndpoint(name, protocols.get(name, name), host.removeprefix("[").removesuffix("]"), int(port))
