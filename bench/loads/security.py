"""The cost of TLS, of logins, of ACLs and of quotas."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.brokers.contestants import KAFKAPY, Arena, Contestant
from bench.loads.in_tests import child
from bench.loads.lifecycle import SETTLE_S
from bench.loads.load import MANY, Load, Metrics, python_client
from bench.loads.single import SingleRecords
from harness.kafkapy_process import kafkapy_command
from harness.measure import LoadError, Meter, median, resident_mib
from harness.wire import Wire
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.quotas import alter_quotas
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest

HANDSHAKES = "bench.clients.handshakes"
TURNS = 3
TOPIC, PREFIXED, LITERAL = 2, 4, 3
ALLOW, ALL = 3, 2
ACLS_A_REQUEST = 1000
BURST_S = 10


@dataclass(frozen=True)
class Secured:
    """Another load on a broker with security, through TLS; `cost` is the metric that falls while a JVM gets warm."""

    load: Load
    cost: str = "s_per_gb"
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = MANY
    settles_in: ClassVar[int] = 6

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        return self.load.run(arena.secured(contestant.name), arena)


@dataclass(frozen=True)
class Handshakes:
    """New connections, one after the other, each with one request: by TLS, or logged in by SCRAM-SHA-512."""

    way: str
    connections: int
    cost: str = "us_per_connection"
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = MANY
    settles_in: ClassVar[int] = 8

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        secured = arena.secured(contestant.name)
        if self.way == "tls":
            options: dict[str, object] = {"port": secured.tls_port, "authority": secured.TLS.authority_pem}
        else:
            user, password = next(iter(secured.SCRAM.users.items()))
            options = {"port": secured.scram_port, "mechanism": secured.SCRAM.kind.mechanism}
            options |= {"user": user, "password": password}
        with Meter(secured.pid) as meter:
            python_client(HANDSHAKES, json.dumps({**options, "connections": self.connections}))
        return {
            "us_per_connection": 1e6 * meter.processor_s / self.connections,
            "per_processor_s": self.connections / meter.processor_s,
        }


@dataclass(frozen=True)
class GuardedRecords:
    """One-record produce requests on 16 connections with so many ACLs, beside the same without an authorizer."""

    acls: int
    requests: int
    compared: ClassVar[Sequence[str]] = (KAFKAPY,)
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = 1

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        authorizer = {
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
        with arena.fresh(contestant.name) as plain, arena.fresh(contestant.name, authorizer) as guarded:
            add_acls(guarded.bootstrap, self.acls)
            load = SingleRecords(16, self.requests)
            costs: dict[Contestant, list[float]] = {plain: [], guarded: []}
            for turn in range(TURNS + 1):
                for each, found in costs.items():
                    cost = load.run(each, arena)["us_per_request"]
                    found.extend([cost] if turn else [])  # the first one warms up
        without, guarded_us = (median(found) or 0.0 for found in costs.values())
        return {"us_per_request": guarded_us, "without_us": without, "above_without": guarded_us / without}


def add_acls(bootstrap: str, count: int) -> None:
    """Allow ANONYMOUS all that the load does by one ACL, and other users other things by the rest."""
    mine = AclCreation(TOPIC, SingleRecords.topic, LITERAL, "User:ANONYMOUS", "*", ALL, ALLOW)
    others = [
        AclCreation(TOPIC, f"topic-{number}", PREFIXED if number % 2 else LITERAL, f"User:u{number}", "*", ALL, ALLOW)
        for number in range(count - 1)
    ]
    everything = [mine, *others]
    with Wire(bootstrap) as wire:
        for first in range(0, count, ACLS_A_REQUEST):
            answer = wire.ask(CreateAclsRequest(everything[first : first + ACLS_A_REQUEST]), 2)
            assert not any(each.error_code for each in answer.results), answer.results[0]


@dataclass(frozen=True)
class Throttled:
    """A producer with a quota for `seconds` seconds of it: its rate, as a share of the quota.

    The first `BURST_S` seconds of the quota may come at once, and are not counted: it is an average of that time.
    """

    bytes_per_s: int
    seconds: int
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = 1
    topic: ClassVar[str] = "throttled"
    client_id: ClassVar[str] = "throttled"
    record_size: ClassVar[int] = 1000

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic)
        with ClusterClient(contestant.bootstrap) as client:
            alter_quotas(client, {"client-id": self.client_id}, {"producer_byte_rate": float(self.bytes_per_s)})
        settings = {**contestant.client_settings, "client.id": self.client_id}
        options: dict[str, object] = {"settings": settings, "topic": self.topic}
        options |= {"record_size": self.record_size, "batch_size": 16384, "linger_ms": 5, "codec": "none"}
        burst, records = (self.bytes_per_s * seconds // self.record_size for seconds in (BURST_S, self.seconds))
        self._produce(options, burst)
        with Meter(contestant.pid) as meter:
            self._produce(options, records)
        contestant.check_records(self.topic, burst + records)
        return {"of_quota": self.seconds / meter.wall_s}

    @staticmethod
    def _produce(options: dict[str, object], records: int) -> None:
        python_client("bench.clients.librdkafka", "produce", json.dumps({**options, "records": records}))


@dataclass(frozen=True)
class SecuredStart:
    """The start of brokers with security="sasl_ssl": in a process that has imported its modules, and by the command.

    A broker in a process is ready when it has answered a user that has logged in over TLS.
    """

    starts: int
    compared: ClassVar[Sequence[str]] = (KAFKAPY,)
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = 3

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        options = json.dumps({"starts": self.starts})
        command = [sys.executable, "-m", "bench.clients.in_tests", "kafkapy-secured", options]
        with child(command) as (_, line):
            in_process: Metrics = json.loads(line)
        started = [self._command() for _ in range(self.starts)]
        return {
            "in_process_ms": in_process["start_ms"],
            "command_ms": median([each_ms for each_ms, _ in started]) or 0.0,
            "command_mib": median([mib for _, mib in started]) or 0.0,
        }

    def _command(self) -> tuple[float, float]:
        """Milliseconds to the line that says where it listens, and the memory that it has a moment later."""
        command = [*kafkapy_command(), "start", "--ephemeral", "--security", "sasl_ssl", "--print-bootstrap"]
        began_s = time.monotonic()
        with child([*command, "--log-level", "error"]) as (process, line):
            ready_s = time.monotonic()
            if not line.strip():
                raise LoadError("kafkapy start --security did not say where it listens")
            time.sleep(SETTLE_S)
            return 1000 * (ready_s - began_s), resident_mib(process.pid)
