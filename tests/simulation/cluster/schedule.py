"""What happens in a history, drawn from its seed in advance, so that a shorter one can be tried with the same seed.

Histories aim at what breaks replication: leaders that change before a follower knows the last high watermark, replicas
that come back with an old or a diverged log, leaders that do not know that they are deposed, messages that arrive late.
"""

from random import Random
from typing import Final, NamedTuple

BROKERS: Final = (1, 2, 3)

TARGETS: Final = ("leader", "leader", "controller", "1", "2", "3")
"""Who is meant; resolved when it happens."""
KINDS: Final = {
    "kill": 4,
    "stop": 1,
    "restart": 8,
    "cut": 3,
    "cut one way": 3,
    "isolate": 2,
    "cut from store": 2,
    "pause": 3,
    "resume": 4,
    "expire": 1,
    "reset": 2,
    "heal": 6,
    "prefer": 4,
    "write": 6,
}
GAPS_MS: Final = ((1, 2), (10, 3), (60, 4), (300, 4), (1500, 2))
"""Longest pause before an event, and how often."""


class Step(NamedTuple):
    """An event, ``after_ms`` after the one before."""

    after_ms: int
    kind: str
    target: str
    other: str

    def __str__(self) -> str:
        needs_other = self.kind in ("cut", "cut one way", "reset")
        return f"{self.kind} {self.target}" + (f" from {self.other}" if needs_other else "")


class Plan(NamedTuple):
    """The settings and the events of one history."""

    seed: int
    settings: dict[str, str]
    session_ms: int
    cuts_power: bool
    """A killed broker loses what was not fsynced; the topic is flushed before each acknowledgement."""
    has_group: bool
    """A client commits offsets of a group, which __consumer_offsets keeps."""
    steps: tuple[Step, ...]


def plan_of(seed: int) -> Plan:
    """Return the history of a seed."""
    random = Random(f"plan {seed}")
    cuts_power = random.random() < 0.15
    settings = {
        "min.insync.replicas": random.choice(("1", "1", "2")),
        "replica.lag.time.max.ms": random.choice(("400", "1000", "2500")),
        "replica.fetch.wait.max.ms": random.choice(("50", "200", "300")),
        "replica.fetch.backoff.ms": random.choice(("20", "100")),
        "num.replica.fetchers": "1",
        "log.segment.bytes": random.choice(("400", "1048576")),
        "replica.high.watermark.checkpoint.interval.ms": random.choice(("200", "5000")),
        "kafkapy.flush": "ack" if cuts_power else "kafka",
    }
    kinds, weights = list(KINDS), list(KINDS.values())
    gaps, shares = [gap for gap, _ in GAPS_MS], [share for _, share in GAPS_MS]
    steps = []
    for _ in range(random.randint(8, 40)):
        gap = random.randint(0, random.choices(gaps, shares)[0])
        target, other = random.choice(TARGETS), random.choice(TARGETS)
        steps.append(Step(gap, random.choices(kinds, weights)[0], target, other))
    return Plan(seed, settings, random.choice((600, 1500)), cuts_power, random.random() < 0.1, tuple(steps))
