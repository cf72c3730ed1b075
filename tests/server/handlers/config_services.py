"""The few services that the configuration handlers use, with the overrides in dictionaries."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metrics import Metrics
from kafkapy.network.session import Session
from kafkapy.protocol.message import Message
from kafkapy.protocol.primitives import decode, encode
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.encoding import EncodedParts
from kafkapy.server.handlers import alter_configs, describe_configs, incremental_alter_configs
from kafkapy.testing.clock import ManualClock

HANDLERS: dict[int, Any] = {32: describe_configs, 33: alter_configs, 44: incremental_alter_configs}


class DictionaryConfigAdmin:
    """A ``ConfigAdmin`` without a store: changes apply to the broker's configuration at once."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.topics: dict[str, dict[str, str]] = {}
        self.brokers: dict[int | None, dict[str, str]] = {}

    async def topic_overrides(self, topic: str) -> dict[str, str]:
        return self.topics.get(topic, {})

    async def broker_overrides(self, broker_id: int | None) -> dict[str, str]:
        return self.brokers.get(broker_id, {})

    async def set_topic_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        self.topics[topic] = dict(overrides)

    async def set_broker_overrides(self, broker_id: int | None, overrides: Mapping[str, str]) -> None:
        self.brokers[broker_id] = dict(overrides)
        if broker_id is None:
            self.config.update_dynamic(cluster_default=overrides)
        else:
            self.config.update_dynamic(per_broker=overrides)


class Broker:
    """Calls handlers; requests and responses are encoded and decoded as on the wire."""

    def __init__(
        self, config: BrokerConfig | None = None, topics: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self.config = config or BrokerConfig.from_properties({"broker.id": "0"})
        self.admin = DictionaryConfigAdmin(self.config)
        self.admin.topics = {name: dict(overrides) for name, overrides in (topics or {"plain": {}}).items()}
        image = SimpleNamespace(topics=self.admin.topics)
        self.services = SimpleNamespace(
            access=None,
            config=self.config,
            config_admin=self.admin,
            metadata=SimpleNamespace(image=image),
            metrics=Metrics(),
            clock=ManualClock(),
        )

    def send(self, request: Any, version: int) -> Any:
        message: type[Message] = type(request)
        arrived = decode(message, encode(request, version), version)
        header: Any = SimpleNamespace(api_version=version)
        services: Any = self.services
        context = RequestContext(services, header, Session.local("PLAINTEXT"))
        response = asyncio.run(HANDLERS[request.API_KEY].handle(context, arrived))
        if isinstance(response, EncodedParts):
            response = response.decoded()
        return decode(type(response), encode(response, version), version)
