"""The events of a history, drawn from its seed in advance, so that a shorter one can be tried with the same seed.

Histories aim at what breaks replication: leaders that change before a follower knows the last high watermark, replicas
that come back with an old or a diverged log, leaders that do not know that they are deposed, messages that arrive late.
"""

from random import Random
from typing import Final, NamedTuple

BROKERS: Final = (1, 2, 3)

TARGETS: Final = ("leader", "leader", "controller", "1", "2", "3")
"""The target of an event; resolved when it happens."""
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
COORDINATORS_SHARE: Final = 0.005
"""The share of the histories with many coordinators, which take longer. They have three kinds of events more: ``kill
all``, ``start`` of one broker, and ``inspect``, which ends all faults and compares everything."""
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


class CoordinatorPlan(NamedTuple):
    """``topics`` topics of up to ``partitions_max`` partitions, beside the internal topics."""

    topics: int
    partitions_max: int
    later_settings: dict[str, str]
    """Settings that differ when a broker starts again: the numbers of partitions for internal topics yet to create."""
    transaction_version: int
    """The finalized ``transaction.version``, and that of the clients' transactions; 0 is not finalized."""


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
    coordinators: CoordinatorPlan | None = None
    """Groups and transactional ids with many coordinators, in some histories."""


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
    plan = Plan(seed, settings, random.choice((600, 1500)), cuts_power, random.random() < 0.1, tuple(steps))
    apart = Random(f"coordinators {seed}")
    return _with_coordinators(plan, apart) if apart.random() < COORDINATORS_SHARE else plan


def _with_coordinators(plan: Plan, random: Random) -> Plan:
    """Return a history of disturbances, each with an inspection behind it."""
    keys = "offsets.topic.num.partitions", "transaction.state.log.num.partitions"
    counts = dict(zip(keys, random.choice((("50", "10"), ("10", "50"), ("10", "10"))), strict=True))
    later = {key: random.choice((count, "7")) for key, count in counts.items()}
    topics = random.choice(((4, 1), (10, 2), (10, 2), (100, 1)))
    ordinary, steps = list(plan.steps), []
    for _ in range(random.randint(1, 2)):
        count = random.choice((0, 0, 4, 8))
        steps += ordinary[:count]
        del ordinary[:count]
        if not count or random.random() < 0.7:
            steps += _all_at_once(random, plan.session_ms)
        steps.append(Step(random.choice((0, 300, 3000)), "inspect", "1", "1"))
    return plan._replace(
        settings={
            **plan.settings,
            **counts,
            "kafkapy.flush": "kafka",
            "replica.fetch.wait.max.ms": "300",
            "kafkapy.api.release": "4.4",
        },
        cuts_power=False,
        has_group=False,
        steps=tuple(steps),
        coordinators=CoordinatorPlan(*topics, later, random.choice((0, 2))),
    )


def _all_at_once(random: Random, session_ms: int) -> list[Step]:
    """Kill all brokers; while they start again, let sessions expire."""
    order = [str(broker) for broker in BROKERS]
    random.shuffle(order)
    steps = [Step(random.randint(0, 800), "kill all", "1", "1")]
    steps += [Step(random.choice((20, 400)), "start", broker, "1") for broker in order]
    steps += [Step(random.choice((20, 400, session_ms)), "start", broker, "1") for broker in order]
    for _ in range(random.randint(0, 3)):
        kind = random.choice(("expire", "expire", "kill", "cut from store"))
        steps.append(Step(random.randint(0, 400), kind, random.choice(("controller", *order)), "1"))
    return steps
