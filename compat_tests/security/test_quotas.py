"""Throttle times beside Apache Kafka's own classes, for random quotas and amounts."""

import random
from typing import Final

import pytest

from compat_tests.security.oracles import run_oracle
from kafkapy.metadata.znodes import tree_name
from kafkapy.quotas.clients import ClientQuotas, Windows
from kafkapy.quotas.limits import DEFAULT, QuotaEntity, QuotaKind
from kafkapy.quotas.rates import LONGEST_THROTTLE_MS
from kafkapy.testing.clock import ManualClock

pytestmark = pytest.mark.java

ROUNDS: Final = 30
STEPS: Final = 150
USERS: Final = ["ANONYMOUS", "a~b*/é+", "<default>"]
CLIENTS: Final = ["p", "consumer-1", "<default>", "x%y"]
BOUNDS: Final = ["0.5", "1", "7", "100", "10000", "1e9"]


def _entity(word: str) -> str | None:
    return None if word == "-" else DEFAULT if word == "*" else tree_name(word)


class _Ours:
    """The same commands as the oracle's."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        self._quotas: ClientQuotas

    def answer(self, line: str) -> str | None:
        command, *words = line.split(" ")
        if command == "new":
            windows = Windows(int(words[0]), int(words[1]))
            self._quotas = ClientQuotas(self._clock, windows, windows, {})
            return None
        if command == "set":
            overrides = {} if words[2] == "-" else {kind.value: words[2] for kind in QuotaKind}
            self._quotas.set(QuotaEntity(_entity(words[0]), _entity(words[1])), overrides)
            return None
        self._clock.advance(int(words[0]))
        user, client_id, amount = tree_name(words[1]), tree_name(words[2]), float(words[3])
        if command == "record":
            return str(self._quotas.record(QuotaKind.PRODUCE, user, client_id, amount))
        mutations = self._quotas.mutations(user, client_id)
        if mutations is None:
            return "0"
        if command == "strict":
            if throttle_ms := mutations.throttle_ms:
                return f"refused {throttle_ms}"
            mutations.take(int(amount))
            return "0"
        mutations.take(int(amount))
        return str(mutations.throttle_ms)


def _lines(draw: random.Random) -> list[str]:
    """Quotas are set first, and later only their bounds change: ours counts nothing before a client has a quota."""
    lines = []
    for _ in range(ROUNDS):
        lines.append(f"new {draw.choice([2, 3, 11])} {draw.choice([1, 2, 10])}")
        owners = [
            (draw.choice([*USERS, "*", "-"]), draw.choice([*CLIENTS, "*", "-"])) for _ in range(draw.randrange(9))
        ]
        owners = [each for each in owners if each != ("-", "-")]
        lines += [f"set {user} {client} {draw.choice(BOUNDS)}" for user, client in owners]
        for _ in range(STEPS):
            if owners and draw.random() < 0.1:
                user, client = draw.choice(owners)
                lines.append(f"set {user} {client} {draw.choice(BOUNDS)}")
                continue
            command = draw.choice(["record", "record", "strict", "permissive"])
            after_ms = draw.choice([0, 1, 17, draw.randrange(1000), draw.randrange(30_000)])
            amount = draw.randrange(1, 50) if command != "record" else draw.choice([1, 50, 1000, 1_000_000])
            lines.append(f"{command} {after_ms} {draw.choice(USERS)} {draw.choice(CLIENTS)} {amount}")
    return lines


def _is_same(own: str, other: str) -> bool:
    """A millisecond is rounding. Apache Kafka's time overflows beyond 24 days; ours is the longest of a response."""
    *verdict, own_ms = own.split(" ")
    *other_verdict, other_ms = other.split(" ")
    is_near = abs(int(own_ms) - int(other_ms)) <= 1 or int(own_ms) == LONGEST_THROTTLE_MS
    return verdict == other_verdict and is_near


@pytest.mark.parametrize("seed", range(3))
def test_throttle_times_are_those_of_apache_kafka(seed: int) -> None:
    lines = _lines(random.Random(seed))
    theirs = run_oracle("QuotaOracle", lines, 100)
    ours = _Ours()
    answered = [(line, answer) for line in lines if (answer := ours.answer(line)) is not None]
    assert len(theirs) == len(answered)
    differing = [
        (line, own, other) for (line, own), other in zip(answered, theirs, strict=True) if not _is_same(own, other)
    ]
    assert not differing, differing[:5]
