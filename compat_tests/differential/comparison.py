"""The same conversation with two brokers, and the first difference of their answers."""

import itertools
import os
import time
from collections import Counter
from typing import Any, Final, NamedTuple

from compat_tests.differential.allowed import is_compressed, rule_for
from compat_tests.differential.cases import Case, Facts
from compat_tests.differential.damage import frame_of, would_harm
from compat_tests.differential.excuses import Excuses
from compat_tests.differential.ids import Ids
from compat_tests.differential.neutral import Gap, Neutral, gaps
from compat_tests.differential.settling import (
    PATIENCE_S,
    READS,
    DisagreeError,
    await_creation,
    await_deletion,
    await_leaders,
    await_settings,
    await_topics,
    await_transaction,
    ends_transaction,
    is_passing,
    named_topics,
)
from compat_tests.differential.sides import CLOSED, PROBE, Side, decoded
from compat_tests.differential.silences import Quiet, silence_for
from compat_tests.differential.steps import Plan, RequestBuilder, Step
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.primitives import encode
from kafkapy.records.validate import FIRST_VERSION_OF_BATCHES

CLIENT_ID: Final = "diff"
CORRELATION_ID: Final = 7
AGAIN_PATIENCE: Final = 10.0
AGAIN_S: Final = 1.5
LATE_S: Final = 10.0
"""The time that the other broker has when one of them has answered."""
MOST_CONNECTIONS: Final = 20
FIRST_SPARE: Final = 10
Answer = bytes | str | None
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")


class Difference(NamedTuple):
    """One difference between the two brokers."""

    place: int
    step: Step
    what: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        damage = f" damaged {self.step.damage}" if self.step.damage else ""
        name = f"{self.step.api} v{self.step.version}{damage}: {self.what}"
        return f"step {self.place + 1}, {name}:\n    Kafka   {shown(self.theirs)}\n    kafkapy {shown(self.ours)}"

    @property
    def signature(self) -> str:
        """A key that is equal for differences of one cause."""
        kind = next(iter(self.step.damage), "") if self.step.damage else ""
        what = ".".join(part for part in self.what.split(".") if not part.isdigit())
        values = [str(each) if isinstance(each, int) else "" for each in (self.theirs, self.ours)]
        return " ".join([self.step.api, kind, what, *values])


def shown(value: Any) -> str:
    """The value as text of a readable length."""
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) < 400 else f"{text[:400]}… ({len(text)} characters)"


class Pending(NamedTuple):
    """A request that neither has answered yet."""

    place: int
    step: Step
    request: Any


class Comparison:
    """Two brokers that get the same requests."""

    def __init__(self, theirs: str, ours: str, release: str) -> None:
        self.release = release
        self.has_topic_ids = not release.startswith("2.")
        self.sides = (Side(theirs), Side(ours))
        self._session = f"{os.getpid() & 0xFFFF:04x}"
        self._numbers = itertools.count(1)
        self.requests = 0
        self.is_verbose = False
        self.patience = 1.0
        self.by_api: Counter[str] = Counter()
        self.excused = Excuses()
        self.served = self._served()

    def _served(self) -> dict[int, tuple[int, int]]:
        """The versions that both advertise."""
        listed = []
        for side in self.sides:
            found: Any = decoded(side.ask(request_frame(ApiVersionsRequest(), 0)), 18, 0)
            listed.append({each.api_key: (each.min_version, each.max_version) for each in found.api_keys})
        theirs, ours = listed
        both = {
            key: (max(theirs[key][0], ours[key][0]), min(theirs[key][1], ours[key][1])) for key in theirs if key in ours
        }
        if self.has_topic_ids:  # 4.x lists the first versions of Produce too, and refuses them (KIP-896)
            both[ApiKey.PRODUCE] = (FIRST_VERSION_OF_BATCHES, both[ApiKey.PRODUCE][1])
        return {key: versions for key, versions in both.items() if versions[0] <= versions[1]}

    def hold(self, plan: Plan) -> list[Difference]:
        """Play a plan until the brokers differ; only groups are left behind."""
        talk = Conversation(self, f"d{self._session}x{next(self._numbers)}-")
        try:
            talk.make_topics(plan.topics)
            return talk.go_through(plan)
        finally:
            talk.end(plan)

    def hold_again(self, plan: Plan) -> list[Difference]:
        """The differences that stay at a slow repetition: Kafka does not report when settings have reached its logs."""
        self.patience = AGAIN_PATIENCE
        try:
            return self.hold(plan)
        finally:
            self.patience = 1.0

    def observe(self, place: int, step: Step, messages: list[Any], answers: list[Answer]) -> None:
        """Print both answers, with ``--verbose``."""
        if self.is_verbose:
            print(f"{place + 1} {shown(step)}")
            for message, answer in zip(messages, answers, strict=True):
                print(f"    {shown(answer if message is None else message)}")

    def close(self) -> None:
        for side in self.sides:
            side.close()

    def __enter__(self) -> "Comparison":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def request_frame(request: Any, version: int) -> bytes:
    """A valid request of the harness."""
    return frame_of(RequestHeader(request.API_KEY, version, CORRELATION_ID, CLIENT_ID), encode(request, version), None)


class Conversation:
    """One plan on both brokers."""

    def __init__(self, comparison: Comparison, prefix: str) -> None:
        self._comparison = comparison
        self._sides = comparison.sides
        self._prefix = prefix
        self._ids = tuple(Ids(prefix) for _ in self._sides)
        self._builders = tuple(RequestBuilder(ids.resolve, ids.resolve_topic) for ids in self._ids)
        self._neutral = tuple(Neutral(ids, side.port) for ids, side in zip(self._ids, self._sides, strict=True))
        self._pending: dict[int, Pending] = {}
        self._stamped = False
        self._compressed = False
        self._parted = False
        self._used_offsets_in_transactions = False

    def make_topics(self, topics: dict[str, dict[str, Any]]) -> None:
        """Create the plan's topics on both brokers."""
        self._note_settings([str(each["configs"]) for each in topics.values()])
        self._await_topics({self._prefix + name: each for name, each in topics.items()})

    def _await_topics(self, topics: dict[str, dict[str, Any] | None]) -> None:
        await_topics(self._sides, topics)
        if self._comparison.has_topic_ids:
            for side, ids in zip(self._sides, self._ids, strict=True):
                ids.learn_topics(await_leaders(side, [name for name in topics if len(name) < 200]))

    def _note_settings(self, texts: list[str]) -> None:
        self._stamped |= any("LogAppendTime" in each for each in texts)
        self._compressed |= any(codec in each for each in texts for codec in CODECS)

    def go_through(self, plan: Plan) -> list[Difference]:
        """The differences of the first step that has any."""
        for place, step in enumerate(plan.steps):
            found = self._step(place, step)
            if found or self._parted:
                return found
            found = self._late_answers(wait=False)
            if found or self._parted:
                return found
        return self._late_answers(wait=True)

    def _step(self, place: int, step: Step) -> list[Difference]:
        requests: list[Any] = [builder.build(step) for builder in self._builders]
        frames = [self._frame(step, request) for request in requests]
        if step.damage and any(map(would_harm, frames)):
            return []
        number = self._free_connection(step.on)
        self._count(step)
        announced = step.damage.get("size") if step.damage else None
        answers = self._exchange(number, frames, announced, is_silent(step, requests[0]))
        if step.api in ("CREATE_TOPICS", "ALTER_CONFIGS", "INCREMENTAL_ALTER_CONFIGS"):
            self._note_settings([str(step.body)])
        if step.api == "PRODUCE":
            sent = [each.records for topic in requests[0].topic_data for each in topic.partition_data]
            self._compressed |= any(is_compressed(bytes(each or b"")) for each in sent)
        if answers[0] is None and answers[1] is not None and self._may_be_silent(step, requests[0], answers):
            self._drop(number)
            return []
        answers = self._wait_for_the_other(number, answers)
        if answers == [None, None]:
            self._pending[number] = Pending(place, step, requests[0])
            return []
        answers = self._once_more(step, requests[0], frames, answers)
        found = self._compare(place, step, requests[0], answers)
        for side, answer in zip(self._sides, answers, strict=True):
            if answer == CLOSED or announced is not None or step.damage:
                side.drop(number)
        return found or self._settle(place, step, requests, frames, answers)

    def _count(self, step: Step) -> None:
        self._comparison.requests += 1
        self._comparison.by_api[f"{step.api} v{step.version}"] += 1

    def _frame(self, step: Step, request: Message) -> bytes:
        header = RequestHeader(step.key, step.version, CORRELATION_ID, CLIENT_ID)
        return frame_of(header, encode(request, step.version), step.damage)

    def _free_connection(self, wanted: int) -> int:
        """The step's connection, or another one if it still waits for an answer."""
        if wanted not in self._pending:
            return wanted
        return next(number for number in itertools.count(FIRST_SPARE) if number not in self._pending)

    def _exchange(self, number: int, frames: list[bytes], announced: int | None, silent: bool) -> list[Answer]:
        """Send the request; returns the immediate answers of both."""
        for side, frame in zip(self._sides, frames, strict=True):
            side.connection(number).send(frame, announced)
            if silent:
                side.connection(number).send(PROBE)
        return self._received(number, PATIENCE_S)

    def _received(self, number: int, timeout_s: float) -> list[Answer]:
        """The answers of both within this time."""
        deadline = time.monotonic() + timeout_s
        return [side.connection(number).receive(max(0.0, deadline - time.monotonic())) for side in self._sides]

    def _wait_for_the_other(self, number: int, answers: list[Answer]) -> list[Answer]:
        if answers.count(None) == 1:
            late = answers.index(None)
            answers[late] = self._sides[late].connection(number).receive(LATE_S)
        return answers

    def _once_more(self, step: Step, request: Any, frames: list[bytes], answers: list[Answer]) -> list[Answer]:
        """Repeat the request while a broker requires it; a request that only reads, until both answers are equal."""
        if step.damage is not None:
            return answers
        reads = step.api in READS and READS[step.api](step.body)
        deadline = time.monotonic() + AGAIN_S
        while time.monotonic() < deadline:
            messages = [self._decoded(step, answer) for answer in answers]
            differ = None not in messages and any(
                rule_for(case) is None for case in self._cases(step, request, messages)
            )
            passing = [message is not None and is_passing(message) for message in messages]
            again = [(differ and (reads or each)) or (each and step.api == "INIT_PRODUCER_ID") for each in passing]
            if not any(again):
                break
            time.sleep(0.01)
            answers = [
                side.ask(frame) if wanted else answer
                for side, frame, answer, wanted in zip(self._sides, frames, answers, again, strict=True)
            ]
        return answers

    def _cases(self, step: Step, request: Any, messages: list[Any], *, waited: bool = False) -> list[Case]:
        """Every difference between two answers."""
        theirs, ours = (neutral.of(message) for neutral, message in zip(self._neutral, messages, strict=True))
        facts = Facts(self._stamped, self._compressed, waited, step.damage is not None, self._comparison.release)
        return [Case(step.api, step.version, request, theirs, ours, gap, facts) for gap in gaps(theirs, ours)]

    def _decoded(self, step: Step, answer: Answer) -> Any:
        if not isinstance(answer, bytes):
            return None
        damage = step.damage or {}
        if is_silent(step, None) and is_probed(answer):
            return None
        if "version" in damage and step.api == "API_VERSIONS":
            return decoded(answer, step.key, 0)
        return decoded(answer, step.key, step.version)

    def _compare(
        self, place: int, step: Step, request: Any, answers: list[Answer], *, waited: bool = False
    ) -> list[Difference]:
        theirs, ours = answers
        messages = [self._decoded(step, answer) for answer in answers]
        self._comparison.observe(place, step, messages, answers)
        for ids, message in zip(self._ids, messages, strict=True):
            if message is not None:
                ids.learn(message)
        if theirs == ours or (is_silent(step, None) and all(map(is_probed, answers))):
            return []
        if None in messages:
            if self._comparison.has_topic_ids and step.damage and {"version", "header"} & step.damage.keys():
                return []  # damaged bytes may name a version that one of them alone serves
            is_explained = self._may_be_silent(step, request, answers)
            return [] if is_explained else [Difference(place, step, "answer", theirs, ours)]
        found = []
        for case in self._cases(step, request, messages, waited=waited):
            rule = rule_for(case)
            if rule is None:
                found.append(Difference(place, step, path_text(case.gap), case.gap.theirs, case.gap.ours))
            else:
                self._comparison.excused.note(rule.reason, case)
                self._parted |= rule.parts_ways
        return found

    def _late_answers(self, *, wait: bool) -> list[Difference]:
        """Compare the answers that come later; at the end both must have sent the same number."""
        for number, pending in list(self._pending.items()):
            answers = self._received(number, PATIENCE_S if wait else 0.0)
            if answers == [None, None]:
                continue
            del self._pending[number]
            if self._may_be_silent(pending.step, pending.request, answers):
                self._drop(number)
                continue
            answers = self._wait_for_the_other(number, answers)
            found = self._compare(pending.place, pending.step, pending.request, answers, waited=True)
            if CLOSED in answers:
                self._drop(number)
            if found:
                return found
        return []

    def _drop(self, number: int) -> None:
        for side in self._sides:
            side.drop(number)

    def _may_be_silent(self, step: Step, request: Any, answers: list[Answer]) -> bool:
        """Whether there is a reason why one of them does not answer."""
        theirs, ours = answers
        found = silence_for(Quiet(step.api, step.version, request, theirs, self._decoded(step, ours)))
        if found is None:
            return False
        self._comparison.excused.note_silence(found.reason, step.api)
        self._parted |= found.parts_ways
        return True

    def _settle(
        self, place: int, step: Step, requests: list[Any], frames: list[bytes], answers: list[Answer]
    ) -> list[Difference]:
        """Wait for the work that a broker does after its answer, before the next request."""
        message = self._decoded(step, answers[0])
        if step.damage:
            return self._others_are_served(place, step)
        if step.api == "TXN_OFFSET_COMMIT":
            self._used_offsets_in_transactions = True
        if message is None:
            return []
        try:
            self._await_effects(step, requests[0], frames, message)
        except DisagreeError as found:
            return [Difference(place, step, "what came of it", *found.states)]
        return []

    def _await_effects(self, step: Step, request: Any, frames: list[bytes], message: Any) -> None:
        if ends_transaction(step, message):
            await_transaction(self._sides, frames, self._prefix if self._used_offsets_in_transactions else None)
        if step.api == "METADATA":
            await_creation(self._sides, message)
        if topics := named_topics(step, request):
            self._await_topics(dict.fromkeys(topics))
            if step.api == "DELETE_TOPICS":
                await_deletion(self._sides, topics)
        await_settings(step, message, self._comparison.patience)

    def _others_are_served(self, place: int, step: Step) -> list[Difference]:
        served = [side.serves_others() for side in self._sides]
        return [] if all(served) else [Difference(place, step, "whether others are served", *served)]

    def end(self, plan: Plan) -> None:
        """Close the connections and remove the topics."""
        for side in self._sides:
            side.drop_all()
        names = [self._prefix + name for name in (*plan.topics, "n", "o", "missing", "auto", "with.dot", "")]
        try:
            await_topics(self._sides, dict.fromkeys(names), gone=True)
        except DisagreeError:  # a request just before the end may create a topic just after it
            await_topics(self._sides, dict.fromkeys(names), gone=True)


def is_silent(step: Step, request: Any) -> bool:
    """Whether the request has no response: Produce with acks=0."""
    acks = step.body.get("acks") if request is None else getattr(request, "acks", None)
    return step.api == "PRODUCE" and acks == 0


def is_probed(answer: Answer) -> bool:
    """Whether it is the answer to the request behind one without a response."""
    return isinstance(answer, bytes) and answer[:4] == PROBE[4:8]


def path_text(gap: Gap) -> str:
    """``topics.0.partitions.1.error_code``."""
    return ".".join(map(str, gap.path)) or "answer"
