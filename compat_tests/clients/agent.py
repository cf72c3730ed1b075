"""Clients in other languages: a small program for each, which gets calls as lines of JSON.

A question is `{"do": name, …}`; the answer is `{"result": …}` or `{"error": {"code": number, "message": …}}`, where
code -100 says that the library can't do this at all. Every question names the broker's `bootstrap` address, the
`settings` of its security as `client_settings` of `kafkapy.testing` gives them, and the `group_protocol` of members,
classic or consumer (KIP-848), so one program serves all brokers of a session. Bytes travel as base64, null as null. The
program keeps group members polling, and loads sending, in the background between questions.
"""

import base64
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest

from compat_tests.clients.client import (
    DEFAULTS,
    EARLIEST,
    GroupState,
    KafkaCodeError,
    Member,
    MemberThread,
    ProduceOptions,
    Received,
    Sent,
    Transaction,
)

POLL_S = 0.05
UNSUPPORTED = -100
WITHOUT_SECURITY: Mapping[str, object] = MappingProxyType({})


def _packed(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _unpacked(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def packed_record(record: Sent) -> dict[str, Any]:
    return {
        "value": _packed(record.value),
        "key": _packed(record.key),
        "headers": [[name, _packed(value)] for name, value in record.headers],
        "timestamp": record.timestamp,
        "partition": record.partition,
    }


def unpacked_record(record: Mapping[str, Any]) -> Received:
    return Received(
        _unpacked(record["value"]),
        _unpacked(record["key"]),
        tuple((name, _unpacked(value)) for name, value in record["headers"] or ()),
        record["timestamp"],
        record["partition"],
        record["offset"],
        record["append_time"],
    )


class AgentEndedError(Exception):
    """The program in the other language ended during a call."""


class Agent:
    """One running program."""

    def __init__(self, command: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, what: str, **arguments: Any) -> Any:
        """Sends a question and waits for the answer; raises KafkaCodeError for a refusal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise AgentEndedError(f"{what}: the program ended with {self._process.wait(10)}")
        answer = json.loads(line)
        if error := answer.get("error"):
            if error["code"] == UNSUPPORTED:
                pytest.skip(error["message"])
            raise KafkaCodeError(error["code"], error["message"])
        return answer.get("result")

    def close(self) -> None:
        """Ends the program by closing its input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@dataclass(frozen=True)
class Abilities:
    """The abilities of a client library, as in `Client`."""

    sends_null_headers: bool = True
    hashes_like_java: bool = True
    is_idempotent: bool = True


class AgentLoad:
    """A producer that an agent keeps busy."""

    def __init__(self, ask: Callable[..., Any], topic: str) -> None:
        self._ask = ask
        self._number = ask("start_load", topic=topic)

    def acknowledged(self) -> int:
        count: int = self._ask("load_state", load=self._number)
        return count

    def finish(self) -> dict[int, tuple[int, int]]:
        result = self._ask("finish_load", load=self._number)
        if result["failures"]:
            raise KafkaCodeError(-1, f"{len(result['failures'])} records were lost: {result['failures'][0]}")
        return {number: (partition, offset) for number, partition, offset in result["places"]}


class AgentClient:
    """An agent as a `Client` of the scenarios."""

    def __init__(
        self,
        name: str,
        agent: Agent,
        bootstrap: str,
        abilities: Abilities,
        settings: Mapping[str, object] = WITHOUT_SECURITY,
        group_protocol: str = "classic",
    ) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.sends_null_headers = abilities.sends_null_headers
        self.hashes_like_java = abilities.hashes_like_java
        self.is_idempotent = abilities.is_idempotent
        self._ask = partial(agent.ask, bootstrap=bootstrap, settings=dict(settings), group_protocol=group_protocol)

    def produce(self, topic: str, records: Sequence[Sent], options: ProduceOptions = DEFAULTS) -> list[tuple[int, int]]:
        settings = {
            "codec": options.codec,
            "idempotent": options.idempotent,
            "acks": options.acks,
            "limit": options.request_limit,
        }
        places = self._ask("produce", topic=topic, records=list(map(packed_record, records)), **settings)
        return [(partition, offset) for partition, offset in places]

    def transact(self, topic: str, transactional_id: str, transactions: Sequence[Transaction]) -> None:
        listed = [
            {
                "values": list(map(_packed, each.values)),
                "commit": each.commit,
                "group": each.group,
                "offset": each.offset,
            }
            for each in transactions
        ]
        self._ask("transact", topic=topic, transactional_id=transactional_id, transactions=listed)

    def consume(
        self, topic: str, count: int, *, partition: int = 0, offset: int = EARLIEST, committed: bool = False
    ) -> list[Received]:
        where = {"topic": topic, "partition": partition, "offset": offset}
        return [
            unpacked_record(record) for record in self._ask("consume", count=count, committed=committed, **where) or ()
        ]

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        first, end = self._ask("watermarks", topic=topic, partition=partition)
        return first, end

    def offset_for_time(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        found: int | None = self._ask("offset_for_time", topic=topic, timestamp=timestamp, partition=partition)
        return found

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        places = [[partition, offset] for partition, offset in offsets.items()]
        self._ask("commit", group=group, topic=topic, offsets=places)

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        found: int | None = self._ask("committed", group=group, topic=topic, partition=partition)
        return found

    def fence(self, topic: str, transactional_id: str) -> int:
        code: int = self._ask("fence", topic=topic, transactional_id=transactional_id)
        return code

    def start_load(self, topic: str) -> AgentLoad:
        return AgentLoad(self._ask, topic)

    def join(self, group: str, topic: str, reset: str = "earliest") -> Member:
        number = self._ask("join", group=group, topic=topic, reset=reset)

        def poll(member: MemberThread) -> None:
            state = self._ask("poll", member=number)
            member.received += map(unpacked_record, state["received"] or ())
            member.assignment = set(state["assignment"] or ())
            if member.commits_wanted > member.commits_done:
                self._ask("commit_member", member=number)
                member.commits_done += 1
            time.sleep(POLL_S)

        return MemberThread(poll, lambda: self._ask("leave", member=number))

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self._ask("create_topic", topic=topic, partitions=partitions, configs=dict(configs or {}))

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topic", topic=topic)

    def topics(self) -> dict[str, int]:
        found: dict[str, int] = self._ask("topics")
        return found

    def add_partitions(self, topic: str, total: int) -> None:
        self._ask("add_partitions", topic=topic, total=total)

    def configs(self, topic: str) -> dict[str, str]:
        found: dict[str, str] = self._ask("configs", topic=topic)
        return found

    def set_config(self, topic: str, key: str, value: str) -> None:
        self._ask("set_config", topic=topic, key=key, value=value)

    def delete_records(self, topic: str, before: int) -> int:
        low: int = self._ask("delete_records", topic=topic, before=before)
        return low

    def describe_group(self, group: str) -> GroupState:
        state, protocol_type, members = self._ask("describe_group", group=group)
        return GroupState(state, protocol_type, members)

    def groups(self) -> set[str]:
        return set(self._ask("groups"))

    def delete_group(self, group: str) -> None:
        self._ask("delete_group", group=group)
