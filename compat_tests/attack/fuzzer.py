"""Broken, unusual and hostile requests to a kafkapy broker: no traceback, bounded memory, other clients are served.

    python -m compat_tests.attack.fuzzer --frames 10000000 --minutes 60 [--seed 7] [--keep-going] [--to FOLDER]
    python -m compat_tests.attack.fuzzer --frames 2000000 --seed 8 --runs FILE
    python -m compat_tests.attack.fuzzer --replay FILE

A broker is started in its own process. Several connections at once send the conversations that ``frames`` draws by the
seed, which is printed. All the time a second client sends ApiVersions and Metadata requests, and produces records to
its topic. The run fails with the first traceback in the broker's log, when the process ends, when its resident memory
exceeds four times that of the idle broker plus ``queued.max.request.bytes``, when the second client gets a wrong
response or none in time, and when one of its acknowledged records is not at its offset, at the end or after a restart.
The last conversations are then kept in a file, which ``--replay`` sends again, one after the other, and one frame at a
time where that is enough. With ``--keep-going`` tracebacks are collected instead, one file for each place.

With ``--security`` the clients have logged in: they connect through a process (``harness.tunnel``) that does so for
them. With ``--before-login`` too it is those that have not that send broken frames, and broken records of TLS.

Many frames may be sent in several runs with different seeds: each run adds its figures, a line of JSON, to the file
``--runs``, and prints the sum of all runs in the file.
"""

import argparse
import base64
import json
import random
import selectors
import socket
import struct
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from compat_tests.attack.answers import Answers
from compat_tests.attack.filled import TIME_MS
from compat_tests.attack.frames import COUNTS, DROP, HOLD, MAX_FRAME_SIZE, TOPICS, Conversation, Generator
from compat_tests.attack.latencies import Latencies
from compat_tests.attack.logins import LoginGenerator
from compat_tests.attack.memory import memory_directory
from compat_tests.attack.options import Bounds, bounds_of, parser_of
from compat_tests.attack.prepared import group, topic, transactional_id
from compat_tests.attack.second_client import SecondClient
from compat_tests.attack.strangers import Place
from compat_tests.attack.watch import Watch, place_of, waited_s
from compat_tests.data_path.frames import fetch
from compat_tests.differential.ids import Ids
from compat_tests.differential.requests import Served
from compat_tests.groups.wire import Wire, answer_to_creation, find_coordinator, join_request, sync_request
from compat_tests.security.secured import KINDS, SecuredBroker
from harness.kafkapy_process import KafkapyProcess
from harness.process import HOST
from harness.tunnel import Tunnel
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import Record, read_records

BUDGET: Final = 64 << 20
"""The broker's ``queued.max.request.bytes``."""
IDLE_SHARE: Final = 4
PREFIX: Final = "f-"
CONNECTIONS: Final = 32
TICK_S: Final = 0.004
"""The interval at which the connections are read."""
STALLED_S: Final = 1.0
"""A conversation without progress for this long is ended: a Fetch or JoinGroup may wait longer."""
HELD_S: Final = 0.3
CHECK_S: Final = 0.5
TELL_S: Final = 10.0
CLEAN_S: Final = 15.0
MOST_PARTITIONS: Final = 50
"""Partitions to which frames may extend a topic before it is made again."""
AT_ONCE: Final = 50
"""Topics or groups in a request that deletes what frames have created."""
LATE_S: Final = 5.0
STOP_S: Final = 120.0
KEPT: Final = 400
READ_SIZE: Final = 1 << 18


class FuzzError(Exception):
    """A fault of the broker; the message describes it and names the file with the last frames."""


class Talk:
    """One conversation on its connection."""

    def __init__(self, port: int, conversation: Conversation) -> None:
        self.conversation = conversation
        self.socket = socket.create_connection((HOST, port), LATE_S)
        self.socket.setblocking(False)
        self._unsent = memoryview(conversation.data)
        self._answers = Answers(READ_SIZE)
        self.moved_s = time.monotonic()
        self.is_over = False
        self._is_cut = False

    @property
    def events(self) -> int:
        """The events for which the selector watches the socket."""
        reads = 0 if self.conversation.ending == HOLD else selectors.EVENT_READ
        return reads | (selectors.EVENT_WRITE if self._unsent else 0)

    @property
    def frames(self) -> int:
        """The frames that the broker could serve so far."""
        if self._is_cut:
            return min(self.conversation.frames, self._answers.count + 1)
        return self.conversation.frames

    def go_on(self, ready: int) -> None:
        """Send and receive as much as is possible now."""
        try:
            if ready & selectors.EVENT_WRITE and self._unsent:
                sent = self.socket.send(self._unsent)
                self._unsent = self._unsent[sent:]
                self.moved_s = time.monotonic()
            if ready & selectors.EVENT_READ:
                self.is_over = not self._answers.receive(self.socket)
                self._is_cut = self.is_over
                self.moved_s = time.monotonic()
        except BlockingIOError:
            return
        except ConnectionError:
            self.is_over = self._is_cut = True
        if not self._unsent and self._is_enough():
            self.is_over = True

    def _is_enough(self) -> bool:
        if self.conversation.ending == DROP:
            return True
        # a refused frame is not answered: wait for the end of the connection while data moves
        return self.conversation.ending != HOLD and self._answers.count >= self.conversation.answers

    def expire(self, now_s: float) -> None:
        """End the conversation when nothing has moved for a long time."""
        patience_s = HELD_S if self.conversation.ending == HOLD else STALLED_S
        self.is_over = self.is_over or now_s - self.moved_s > patience_s

    def close(self) -> None:
        """Close the connection; one with unread responses is reset."""
        if self.conversation.number % 2:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Target:
    """The broker, with topics, groups and ids that the frames name."""

    def __init__(self, directory: Path | None = None, budget: int = BUDGET, security: str = "") -> None:
        self._security = security
        self._stack = ExitStack()
        self.process = KafkapyProcess(
            directory=directory,
            config={
                "queued.max.request.bytes": str(budget),
                "socket.request.max.bytes": str(MAX_FRAME_SIZE),
                "log.segment.bytes": str(1 << 20),
                # topics that frames create are state, not a fault: they are few, and soon deleted
                "log.segment.delete.delay.ms": "1000",
                "kafkapy.auto.create.topics.per.second": "5",
                "connection.failed.authentication.delay.ms": "10",
            },
            options=("--log-level", "warning"),
        )
        self.secured = SecuredBroker(self.process) if security else None
        self.port = self.second_port = self.process.port
        """Of the clients that send frames, and of the second client."""
        self.ids = Ids(PREFIX, TIME_MS)
        self.own_topic = f"second-{random.SystemRandom().randrange(10**12)}"
        self.idle_bytes = 0

    def __enter__(self) -> Self:
        if self.secured is not None:
            self.process.overrides.update(self.secured.settings())
        self.process.__enter__()
        try:
            self._secure()
            self._set_up()
        except BaseException:
            self._stack.close()
            self.process.close()
            raise
        self.watch = Watch(self.process)
        self.idle_bytes = self.watch.resident_bytes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.process.kill()
        self.process.close()

    def _secure(self) -> None:
        """Go through a tunnel from now on, if the run is about a listener with security."""
        if self.secured is None:
            return
        self.secured.store_users()
        properties = self.secured.security[self._security].java_properties("", "alice")
        port = self.secured.port(self._security)
        self.port, self.second_port = (self._stack.enter_context(Tunnel(port, properties)).port for _ in range(2))

    def port_of(self, conversation: Conversation) -> int:
        """Where a conversation goes to."""
        if not conversation.to:
            return self.port
        assert self.secured is not None, "only a run with security has other listeners"
        return self.secured.port(conversation.to)

    def restart(self) -> None:
        """Stop the broker as an operator does and start it again; raises FuzzError if it does not end well."""
        if code := self.process.stop(STOP_S):
            raise FuzzError(f"the broker ended with {code}:\n{self.process.log_tail()}")
        self.process.start()

    def wire(self) -> Wire:
        """A connection for whole requests."""
        return Wire(f"{HOST}:{self.port}")

    def served(self) -> Served:
        """The versions of each API that the broker advertises."""
        with self.wire() as wire:
            return {
                each.api_key: (each.min_version, each.max_version)
                for each in wire.ask(ApiVersionsRequest(), 0).api_keys
            }

    def place(self) -> Place:
        """The ports of all kinds of security."""
        assert self.secured is not None, "only a run with security has them"
        return Place.of(self.secured)

    @staticmethod
    def topics() -> dict[str, int]:
        """The topics that frames name, with their partitions."""
        return {f"{PREFIX}a": 2, f"{PREFIX}b": 1, **{topic(each): 3 for each in range(TOPICS)}}

    def _set_up(self) -> None:
        with self.wire() as wire:
            for name, partitions in {self.own_topic: 1, **self.topics()}.items():
                answer_to_creation(wire, CreatableTopic(name, num_partitions=partitions, replication_factor=1))
            for each in (f"{PREFIX}g", f"{PREFIX}h", group(0), group(1)):
                find_coordinator(wire, each)
                joined = wire.ask(join_request(each, session_timeout_ms=1_800_000), 2)
                self.ids.learn(joined)
                wire.ask(sync_request(each, joined.generation_id, joined.member_id), 1)
            names = [f"{PREFIX}t", f"{PREFIX}u", *(transactional_id(each) for each in range(COUNTS.transactional_ids))]
            wire.ask(FindCoordinatorRequest(names[0], 1), 1)  # has the topic of transactions made
            for name in names:
                self.ids.learn(self._init_producer(wire, name))

    @staticmethod
    def _init_producer(wire: Wire, name: str) -> object:
        while (answer := wire.ask(InitProducerIdRequest(name, transaction_timeout_ms=60_000), 1)).error_code:
            wire.has_answer(0.05)  # its coordinator is being made
        return answer

    def tidy(self) -> None:
        """Delete topics and groups that frames have made or extended; make the topics again that are missing then."""
        with suppress(AssertionError, OSError), self.wire() as wire:  # a busy broker: the next time will do
            there = {each.name: len(each.partitions) for each in wire.ask(MetadataRequest(topics=None), 4).topics}
            wanted = self.topics()
            own = [name for name in there if name != self.own_topic and name[:2] != "__"]
            extra = [name for name in own if name not in wanted or there[name] > MOST_PARTITIONS]
            for start in range(0, len(extra), AT_ONCE):
                wire.ask(DeleteTopicsRequest(topic_names=extra[start : start + AT_ONCE], timeout_ms=5000), 3)
            for name in wanted.keys() - (there.keys() - set(extra)):
                answer_to_creation(wire, CreatableTopic(name, num_partitions=wanted[name], replication_factor=1))
            groups = [each.group_id for each in wire.ask(ListGroupsRequest(), 0).groups]
            for start in range(0, len(groups), AT_ONCE):
                wire.ask(DeleteGroupsRequest(groups[start : start + AT_ONCE]), 1)


class Fuzzer:
    """One run against a target."""

    def __init__(
        self, target: Target, second: SecondClient, seed: int, to: Path, *, before_login: bool = False
    ) -> None:
        self._target = target
        self._second = second
        self._seed = seed
        self._to = to
        self._generator: Generator | LoginGenerator
        if before_login:
            self._generator = LoginGenerator(seed, target.place().hello())
        else:
            self._generator = Generator(seed, target.served(), target.ids)
        self._selector = selectors.DefaultSelector()
        self._recent: deque[Conversation] = deque(maxlen=KEPT)
        self._next_number = 0
        self._tidying = threading.Thread()
        self._began_s = self._told_s = self._checked_s = self._cleaned_s = time.monotonic()
        self.frames = 0
        self.kinds: Counter[str] = Counter()
        self.peak_bytes = 0
        self.latencies = Latencies(second.interval_s)
        self.by_request: dict[str, Latencies] = {}
        self.places: Counter[str] = Counter()
        self.faults: list[str] = []

    def run(self, frames: int, seconds: float, *, keep_going: bool = False) -> None:
        """Send until there were enough frames, or the time is over; raises FuzzError."""
        self._second.report()
        self._began_s = self._told_s = self._checked_s = self._cleaned_s = time.monotonic()
        while self.frames < frames and time.monotonic() - self._began_s < seconds:
            while len(self._selector.get_map()) < CONNECTIONS:
                self._begin()
            self._turn()
            self._look(keep_going=keep_going)
        for key in list(self._selector.get_map().values()):
            self._end(key.data)
        self._check(keep_going=keep_going)

    def _look(self, *, keep_going: bool) -> None:
        """Check, report and clean up when each is due."""
        now_s = time.monotonic()
        if now_s - self._checked_s > CHECK_S:
            self._checked_s = now_s
            self._check(keep_going=keep_going)
        if now_s - self._told_s > TELL_S:
            self._told_s = now_s
            print(self.figures(), flush=True)
        if now_s - self._cleaned_s > CLEAN_S:
            self._cleaned_s = now_s
            self._tidy()

    def _tidy(self) -> None:
        """Start to clean up, unless the last clean-up is running: it takes seconds, while frames are sent."""
        if not self._tidying.is_alive():
            self._tidying = threading.Thread(target=self._target.tidy, daemon=True)
            self._tidying.start()

    def _begin(self) -> None:
        conversation = self._generator.conversation(self._next_number)
        self._next_number += 1
        if not conversation.data:
            return
        self._recent.append(conversation)
        try:
            talk = Talk(self._target.port_of(conversation), conversation)
        except OSError as error:
            self._check(keep_going=False)
            self._fail(f"no connection: {error}")
        self._selector.register(talk.socket, talk.events, talk)

    def _turn(self) -> None:
        time.sleep(TICK_S)
        for key, ready in self._selector.select(0.02):
            key.data.go_on(ready)
        now_s = time.monotonic()
        for key in list(self._selector.get_map().values()):
            talk: Talk = key.data
            talk.expire(now_s)
            if talk.is_over:
                self._end(talk)
            elif talk.events != key.events:
                if talk.events:
                    self._selector.modify(talk.socket, talk.events, talk)
                elif key.events:
                    self._selector.modify(talk.socket, selectors.EVENT_READ, talk)

    def _end(self, talk: Talk) -> None:
        self._selector.unregister(talk.socket)
        talk.close()
        self.frames += talk.frames
        self.kinds[talk.conversation.kind] += talk.frames

    def _check(self, *, keep_going: bool) -> None:
        self._check_broker(keep_going=keep_going)
        report = self._second.report()
        self.latencies.add(each[2] for each in report.samples)
        for kind in {each[0] for each in report.samples}:
            found = self.by_request.setdefault(kind, Latencies(self._second.interval_s))
            found.add(each[2] for each in report.samples if each[0] == kind)
        self.faults += report.faults
        if report.faults:
            self._fail(f"the second client: {report.faults[:5]}")
        if report.waiting_s > LATE_S:
            self._fail(f"the second client has no answer for {report.waiting_s:.1f} s")

    def _check_broker(self, *, keep_going: bool) -> None:
        target = self._target
        for text in target.watch.tracebacks():
            place = place_of(text)
            self.places[place] += 1
            if self.places[place] == 1:
                print(f"--- {place}: {self._keep(f'traceback-{len(self.places)}')}\n{text}", flush=True)
            if not keep_going:
                self._fail(f"a traceback: {text}")
        if why := target.process.why_gone():
            self._fail(why)
        resident = target.watch.resident_bytes()
        self.peak_bytes = max(self.peak_bytes, resident)
        if resident > IDLE_SHARE * target.idle_bytes + BUDGET:
            self._fail(f"{resident >> 20} MiB of memory, {target.idle_bytes >> 20} MiB when idle")

    def _fail(self, what: str) -> None:
        raise FuzzError(f"{what}\nseed {self._seed}, the last conversations: {self._keep('failure')}")

    def _keep(self, name: str) -> Path:
        """Write the last conversations into a file for ``--replay``."""
        self._to.mkdir(parents=True, exist_ok=True)
        path = self._to / f"{self._seed}-{name}.json"
        path.write_text("\n".join(json.dumps(_json(each)) for each in self._recent) + "\n")
        return path

    def figures(self) -> str:
        """One line about the progress."""
        spent_s = time.monotonic() - self._began_s
        return (
            f"{self.frames:,} frames in {spent_s:.0f} s ({self.frames / spent_s:,.0f}/s), "
            f"{self._target.watch.resident_bytes() >> 20} MiB (idle {self._target.idle_bytes >> 20}), "
            f"second client: {self.latencies}"
        )

    def summary(self) -> dict[str, Any]:
        """The figures of the run, as ``--runs`` keeps them."""
        return {
            "seed": self._seed,
            "frames": self.frames,
            "seconds": round(time.monotonic() - self._began_s, 1),
            "tracebacks": self.places.total(),
            "peak_mib": self.peak_bytes >> 20,
            "idle_mib": self._target.idle_bytes >> 20,
            "p99_ms": round(self.latencies.percentile(0.99) * 1000, 1),
            "max_ms": round(self.latencies.max_s * 1000, 1),
            "broker_processor_s": round(self._target.watch.processor_s(), 1),
            "own_processor_s": round(time.process_time(), 1),
        }

    def table(self) -> Iterator[str]:
        """The second client's latencies by request, and the frames by kind."""
        yield from (f"{kind:12} {found.count:7} {found}" for kind, found in sorted(self.by_request.items()))
        yield ", ".join(f"{kind} {count:,}" for kind, count in self.kinds.most_common())
        waits = [waited_s(pid) for pid in (self._target.process.pid or 0, self._second.pid)]
        used = self.summary()
        yield f"processor time: broker {used['broker_processor_s']} s, fuzzer {used['own_processor_s']} s"
        yield f"without a processor, though ready: broker {waits[0]:.1f} s, second client {waits[1]:.1f} s"
        yield from (f"{count:6} {place}" for place, count in self.places.most_common())

    def hold(self, bounds: Bounds) -> None:
        """Raise FuzzError if the second client waited for longer than is allowed."""
        if bounds.broken(self.latencies.percentile(0.99), self.latencies.max_s):
            self._fail(f"the second client waited: {self.latencies}")

    def verify(self) -> int:
        """How many records were acknowledged; raises FuzzError if one is not at its offset."""
        acknowledged = dict(self._second.acknowledged())
        self._second.close()  # its requests would fail during the restart
        self._compare(acknowledged)
        self._target.restart()
        self._compare(acknowledged)
        self._check_broker(keep_going=False)
        return len(acknowledged)

    def _compare(self, acknowledged: dict[int, int]) -> None:
        """Raise FuzzError unless each acknowledged record is at its offset."""
        offsets = sorted(acknowledged)
        if [acknowledged[each] for each in offsets] != list(acknowledged.values()):
            self._fail("the acknowledged records are not in the order of sending")
        there: dict[int, bytes | None] = {}
        with self._target.wire() as wire:
            while not offsets or len(there) == 0 or max(there) < offsets[-1]:
                data = bytes(fetch(wire, self._target.own_topic, max(there, default=-1) + 1).records or b"")
                if not data or not offsets:
                    break
                there |= {each.offset: each.value for each in records_in(data)}
        wrong = [each for each in offsets if there.get(each) != b"%d" % acknowledged[each]]
        if wrong:
            self._fail(f"{len(wrong)} acknowledged records are not where they were acknowledged: {wrong[:5]}")


def records_in(data: bytes) -> Iterator[Record]:
    """The records of whole batches."""
    for position, header in iterate_headers(data):
        yield from read_records(data, header, position)


def _json(conversation: Conversation) -> dict[str, object]:
    return {**conversation._asdict(), "data": base64.b64encode(conversation.data).decode()}


def kept(path: Path) -> list[Conversation]:
    """The conversations in a file that ``Fuzzer`` wrote."""
    found = map(json.loads, path.read_text().splitlines())
    return [Conversation(**{**each, "data": base64.b64decode(each["data"])}) for each in found]


def frames_of(data: bytes) -> list[bytes]:
    """The frames with their sizes; the bytes behind the last whole frame are one piece."""
    found: list[bytes] = []
    while data:
        size = 4 + int.from_bytes(data[:4], "big", signed=True)
        end = size if 4 < size <= len(data) else len(data)
        found.append(data[:end])
        data = data[end:]
    return found


class Replay:
    """Sends kept conversations to another broker, and finds those that leave a traceback."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def run(self, conversations: Sequence[Conversation]) -> dict[str, tuple[str, bytes]]:
        """By place: the traceback and the shortest bytes found that cause it."""
        found: dict[str, tuple[str, bytes]] = {}
        for conversation in conversations:
            for text in self._send(conversation):
                found.setdefault(place_of(text), (text, self._smaller(conversation, place_of(text))))
        return found

    def _send(self, conversation: Conversation) -> list[str]:
        talk = Talk(self._target.port_of(conversation), conversation)
        with selectors.DefaultSelector() as selector:
            selector.register(talk.socket, talk.events or selectors.EVENT_READ, talk)
            while not talk.is_over:
                for _, ready in selector.select(0.02):
                    talk.go_on(ready)
                talk.expire(time.monotonic())
        talk.close()
        with self._target.wire() as wire:  # its response comes after the effects of the conversation
            wire.ask(ApiVersionsRequest(), 0)
        return self._target.watch.tracebacks()

    def _smaller(self, conversation: Conversation, place: str) -> bytes:
        """One frame, if it causes the traceback; else the shortest run of frames up to the first that causes it."""
        frames = frames_of(conversation.data)
        pieces = [[each] for each in frames] + [frames[:end] for end in range(2, len(frames))]
        for piece in pieces:
            data = b"".join(piece)
            shorter = conversation._replace(data=data, frames=len(piece), answers=len(piece))
            if place in map(place_of, self._send(shorter)):
                return data
        return conversation.data


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__name__)
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--to", type=Path, default=Path("out/fuzz"), help="a folder for what is kept of a failure")
    parser.add_argument("--runs", type=Path, metavar="FILE", help="add the figures of this run, print the sum of all")
    parser.add_argument("--keep-going", action="store_true", help="collect tracebacks, one file for each place")
    parser.add_argument("--any-latency", action="store_true", help="report the second client's latencies only")
    parser.add_argument("--replay", type=Path, metavar="FILE")
    parser.add_argument("--security", default="", choices=KINDS, help="frames of a client that has logged in so")
    parser.add_argument("--before-login", action="store_true", help="broken logins and records of TLS, see logins.py")
    wanted = parser.parse_args(given)
    if wanted.before_login and not wanted.security:
        parser.error("--before-login needs --security: that of the second client")
    return wanted


def added(path: Path, summary: dict[str, Any]) -> str:
    """Add a run's figures to the file; return the sum of all runs in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(summary) + "\n")
    runs = [json.loads(each) for each in path.read_text().splitlines()]
    frames, seconds, tracebacks = (sum(each[name] for each in runs) for name in ("frames", "seconds", "tracebacks"))
    peak, p99, longest = (max(each[name] for each in runs) for name in ("peak_mib", "p99_ms", "max_ms"))
    return (
        f"{len(runs)} runs: {frames:,} frames in {seconds:,.0f} s, {tracebacks} tracebacks, memory at most {peak} MiB, "
        f"second client: worst p99 {p99} ms, worst {longest} ms"
    )


def replay(path: Path, security: str) -> int:
    """Send a file's conversations; 1 if one leaves a traceback, else 0."""
    with Target(security=security) as target:
        found = Replay(target).run(kept(path))
    for place, (text, data) in found.items():
        print(f"--- {place}, {len(data)} bytes: {data[:4000].hex()}\n{text}")
    return int(bool(found))


def fuzz(wanted: argparse.Namespace, bounds: Bounds) -> int:
    """One run; raises FuzzError. 1 if tracebacks were collected, else 0."""
    print(f"seed {wanted.seed}", flush=True)
    with (
        memory_directory() as directory,
        Target(directory, security=wanted.security) as target,
        SecondClient(target.second_port, topic=target.own_topic) as second,
    ):
        fuzzer = Fuzzer(target, second, wanted.seed, wanted.to, before_login=wanted.before_login)
        fuzzer.run(wanted.frames, wanted.minutes * 60, keep_going=wanted.keep_going)
        print(fuzzer.figures(), *fuzzer.table(), sep="\n", flush=True)
        summary = fuzzer.summary()
        print(f"{fuzzer.verify():,} acknowledged records are there, also after a restart")
        print(json.dumps(summary))
        if not wanted.any_latency:
            fuzzer.hold(bounds)
        if wanted.runs:
            print(added(wanted.runs, summary))
        return int(bool(fuzzer.places))


def main() -> int:
    wanted = arguments(sys.argv[1:])
    if wanted.replay:
        return replay(wanted.replay, wanted.security)
    try:
        return fuzz(wanted, bounds_of(wanted))
    except FuzzError as failure:
        print(failure)
        return 1


if __name__ == "__main__":
    sys.exit(main())
