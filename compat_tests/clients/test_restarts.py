"""A broker that ends, comes back and stalls under the load of every client at once: nothing is lost or doubled.

Each client keeps an idempotent producer and a member of a group busy in a topic of its own, all of them on one broker
at the same time, since what takes long is the broker. Each client's outcome is a test of its own.
"""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from compat_tests.clients.agents import AGENTS, Agents
from compat_tests.clients.client import EARLIEST, LOAD_PARTITIONS, Client, Load, Member, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.conftest import CLIENTS, new_client
from compat_tests.groups.wire import Wire, create_topic
from compat_tests.java_programs import MissingToolchainError
from compat_tests.process import ChildProcess

pytestmark = [
    pytest.mark.scenario("restart", client="{name}"),
    pytest.mark.timeout(300),
    pytest.mark.together,
]

RECORDS_BETWEEN = 60
STALL_S = 1.5
NAMES = (*CLIENTS, *AGENTS)


@dataclass
class Busy:
    """One client at work, and what came of it."""

    client: Client
    topic: str
    load: Load
    member: Member | None
    """None where the library has no groups."""
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def goes_on(self) -> None:
        """Returns when the broker has taken some more of its records."""
        wanted = self.load.acknowledged() + RECORDS_BETWEEN
        try:
            wait_until(lambda: self.load.acknowledged() >= wanted, f"{self.client.name}'s next records")
        except AssertionError:
            self.load.finish()  # knows why
            raise

    def finish(self) -> None:
        """Ends the load, lets the member read what is left, and ends that too."""
        self.places = self.load.finish()
        if self.member is not None:
            wait_until(lambda: len(self.read()) >= len(self.places), f"what {self.client.name}'s member has to read")

    def read(self) -> set[bytes | None]:
        """The values that the member has received."""
        return {record.value for record in self.member.received} if self.member is not None else set()

    def close(self) -> None:
        if self.member is not None:
            self.member.close()


Outcome = Busy | BaseException


def _started(name: str, broker: ChildProcess, agents: Agents) -> Outcome:
    try:
        client, topic = new_client(name, broker.bootstrap, agents), f"load-of-{name}"
        load = client.start_load(topic)
        try:
            member = client.join(f"group-of-{name}", topic)
        except pytest.skip.Exception:
            member = None
        return Busy(client, topic, load, member)
    except (Exception, pytest.skip.Exception) as error:  # noqa: BLE001  (told by the client's own test)
        return error


def _each(outcomes: dict[str, Outcome], step: Callable[[Busy], None]) -> None:
    """Takes the step with every client that is still well, all at once."""

    def attempt(name: str) -> None:
        busy = outcomes[name]
        if isinstance(busy, Busy):
            try:
                step(busy)
            except Exception as error:  # noqa: BLE001  (told by the client's own test)
                outcomes[name] = error

    with ThreadPoolExecutor(len(outcomes)) as pool:
        list(pool.map(attempt, outcomes))


def _stall(broker: ChildProcess) -> None:
    """Connections stay, answers don't come: longer than none of the clients' patience, long enough to fill buffers."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    time.sleep(STALL_S)
    os.kill(broker.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def outcomes(mortal: ChildProcess, agents: Agents) -> dict[str, Outcome]:
    """What became of each client; the broker is still there."""
    with Wire(mortal.bootstrap) as wire:
        for name in NAMES:
            create_topic(wire, f"load-of-{name}", LOAD_PARTITIONS)
    with ThreadPoolExecutor(len(NAMES)) as pool:
        found = dict(zip(NAMES, pool.map(lambda name: _started(name, mortal, agents), NAMES), strict=True))
    _each(found, Busy.goes_on)
    mortal.stop()
    mortal.start()
    _each(found, Busy.goes_on)
    _stall(mortal)
    _each(found, Busy.goes_on)
    _each(found, Busy.finish)
    _each(found, Busy.close)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_or_doubled(outcomes: dict[str, Outcome], name: str) -> None:
    busy = outcomes[name]
    if isinstance(busy, MissingToolchainError):
        pytest.skip(str(busy))
    if isinstance(busy, BaseException):
        raise busy
    if busy.member is not None:
        assert busy.read() == {b"%d" % number for number in busy.places}
    assert sorted(busy.places) == list(range(len(busy.places)))
    reader = ConfluentClient(busy.client.bootstrap)
    for partition in range(LOAD_PARTITIONS):
        numbers = range(partition, len(busy.places), LOAD_PARTITIONS)
        first, end = reader.watermarks(busy.topic, partition)
        log = reader.consume(busy.topic, end, partition=partition, offset=EARLIEST)
        assert first == 0
        found = {int(each.value or b""): each.offset for each in log}
        assert found == {number: busy.places[number][1] for number in numbers}
        if busy.client.is_idempotent:
            assert [each.value for each in log] == [b"%d" % number for number in numbers]
