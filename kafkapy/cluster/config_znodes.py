"""Kafka's tree: what is configured at run time, and the notes that tell brokers to read it again."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkapy.cluster.znodes import decode_json, encode_json, required

DEFAULT_ENTITY: Final = "<default>"
"""The name of the node that configures every broker (or client id, or user) that has no value of its own."""


class ConfigEntity(NamedTuple):
    """What a configuration belongs to: ``kind`` is topics, brokers, clients or users; ``name`` as in the tree."""

    kind: str
    name: str

    @classmethod
    def topic(cls, name: str) -> "ConfigEntity":
        """The overrides of a topic."""
        return cls("topics", name)

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
        """Where an entity's configuration is."""
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
        """Where the next note goes; the store adds ten digits."""
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
