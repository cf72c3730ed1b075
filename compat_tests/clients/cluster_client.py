"""A client of several brokers, which waits until all of them know of a change that the controller has answered."""

from collections.abc import Mapping
from typing import Any, cast

from compat_tests.brokers.topics import wait_for_end, wait_for_leaders
from compat_tests.clients.client import Client


def on_cluster(client: Client) -> Client:
    """The client, whose changes of topics are known everywhere when they return."""
    return cast("Client", ClusterClient(client))


class ClusterClient:
    """All calls are the client's own: those that change topics return later."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self._client.create_topic(topic, partitions, configs)
        wait_for_leaders(self._client.bootstrap, topic, partitions)

    def delete_topic(self, topic: str) -> None:
        self._client.delete_topic(topic)
        wait_for_end(self._client.bootstrap, topic)

    def add_partitions(self, topic: str, total: int) -> None:
        self._client.add_partitions(topic, total)
        wait_for_leaders(self._client.bootstrap, topic, total)
