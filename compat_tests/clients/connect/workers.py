"""Kafka Connect's workers and MirrorMaker 2, each a JVM of its own, as Kafka's scripts start them."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from compat_tests.clients.client import wait_until
from harness.connect import BROKERS_DEFAULT, REPLICAS, ConnectProcess
from harness.process import HOST

STRINGS = "org.apache.kafka.connect.storage.StringConverter"
NOT_FOUND, CONFLICT = 404, 409
PATIENCE_S = 100
NO_SECURITY: Mapping[str, str] = MappingProxyType({})
ROLES = ("", "producer.", "consumer.")
"""Before the names of a worker's settings: its own clients, and those of its connectors."""
START = {"plugin.discovery": "service_load"}
"""From 3.6 on, connectors are found without a search through every class; before that it means nothing."""
SOONER = {
    "refresh.topics.interval.seconds": "1", "refresh.groups.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1", "emit.checkpoints.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1", "sync.group.offsets.interval.seconds": "1",
    "offset.flush.interval.ms": "500", "sync.group.offsets.enabled": "true",
}  # fmt: skip


def wait_long(condition: Callable[[], bool], what: str) -> None:
    """As `wait_until`, with the time that these JVMs need on a busy machine."""
    wait_until(condition, what, PATIENCE_S)


class Worker(ConnectProcess):
    """A Connect worker: standalone with its connectors, or distributed, which gets them later by its REST interface.

    A distributed one keeps what it knows in topics named after its group. ``security`` has the properties of a Java
    client.
    """

    def __init__(
        self,
        version: str,
        bootstrap: str,
        directory: Path,
        *,
        group: str | None = None,
        connectors: Mapping[str, Mapping[str, str]] | None = None,
        security: Mapping[str, str] = NO_SECURITY,
    ) -> None:
        standalone = {"offset.storage.file.filename": str(directory / "offsets")}
        distributed = {"group.id": group or "", "offset.storage.partitions": "2", "status.storage.partitions": "2"}
        for kind in ("config", "offset", "status"):
            distributed |= {
                f"{kind}.storage.topic": f"{group}-{kind}",
                f"{kind}.storage.replication.factor": BROKERS_DEFAULT,
            }
        files: dict[str, Mapping[str, str]] = {"worker": {}, **(connectors or {})}
        super().__init__(version, f"cli.Connect{'Distributed' if group else 'Standalone'}", files, directory)
        files["worker"] = {
            **START,
            "bootstrap.servers": bootstrap,
            "key.converter": STRINGS,
            "value.converter": STRINGS,
            "offset.flush.interval.ms": "500",
            "heartbeat.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "0",
            "listeners": f"http://{HOST}:{self.port}",
            "rest.advertised.host.name": HOST,
            **(distributed if group else standalone),
            **{f"{role}{name}": value for role in ROLES for name, value in security.items()},
        }

    def is_ready(self) -> bool:
        try:
            self.ask("GET", "/connectors")
        except OSError:
            return False
        return True

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Calls the REST interface; raises HTTPError for a refusal."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{HOST}:{self.port}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as response:
            text = response.read()
        return json.loads(text) if text else None

    def is_accepted(self, method: str, path: str, body: object = None) -> bool:
        """Calls it; False while the workers rebalance and answer so."""
        try:
            self.ask(method, path, body)
        except urllib.error.HTTPError as refusal:
            if refusal.code != CONFLICT:
                raise
            return False
        return True

    def states(self, connector: str) -> list[str]:
        """The states of a connector and its tasks; [] if the connector does not exist."""
        try:
            status = self.ask("GET", f"/connectors/{connector}/status")
        except urllib.error.HTTPError as refusal:
            if refusal.code not in (NOT_FOUND, CONFLICT):
                raise
            return []
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


class MirrorMaker(ConnectProcess):
    """MirrorMaker 2 from the cluster `source` to the cluster `target`, of some topics and groups.

    Offsets are translated by pairs that it remembers: 2.7 counts on from the last one and tells nothing of what lies
    before it, later releases know of several and tell no more than they know, so that they need many.
    """

    def __init__(
        self,
        version: str,
        source: str,
        target: str,
        *,
        topics: str,
        groups: str,
        source_security: Mapping[str, str] = NO_SECURITY,
    ) -> None:
        properties = {
            "clusters": "source,target",
            "source.bootstrap.servers": source,
            "target.bootstrap.servers": target,
            "source->target.enabled": "true",
            "source->target.topics": topics,
            "source->target.groups": groups,
            "offset.lag.max": "100" if version.startswith("2.") else "0",
            **START,
            **SOONER,
            **REPLICAS,
            **{f"source.{name}": value for name, value in source_security.items()},
        }
        super().__init__(version, "mirror.MirrorMaker", {"mirror": properties})


def file_connectors(name: str, topic: str, directory: Path) -> dict[str, dict[str, str]]:
    """A source that reads `<name>.in` into the topic, which it creates, and a sink that writes it to `<name>.out`."""
    created = {
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": BROKERS_DEFAULT,
    }
    source = {"connector.class": "FileStreamSource", "file": str(directory / f"{name}.in"), "topic": topic, **created}
    sink = {"connector.class": "FileStreamSink", "file": str(directory / f"{name}.out"), "topics": topic}
    return {kind: {"name": f"{name}-{kind}", "tasks.max": "1", **each}
            for kind, each in (("source", source), ("sink", sink))}  # fmt: skip


def append_lines(path: Path, numbers: range) -> None:
    """Adds a line for each number, in one write."""
    with path.open("a") as file:
        file.write("".join(f"line {number}{os.linesep}" for number in numbers))


def lines_of(path: Path) -> list[str]:
    """The lines that the sink has written so far."""
    return path.read_text().splitlines() if path.exists() else []
