"""Kill a mirror and its brokers under load: `python -m compat_tests.chaos.mirror_campaign --kills 100 --exactly-once`.

`kafkapy mirror` copies from a kafkapy broker to another one, or with `--target kafka` to Apache Kafka 2.7.2, while
`mirror_load.py` writes to the source. The seed draws the kills: SIGKILL of the mirror, of the source and of the target,
SIGSTOP of the source and of the target for up to four seconds (sometimes the mirror is killed meanwhile), and a mirror
that is stopped, replaced by another one, and goes on. At the end consumers of committed records read both sides: all
records are copied, none comes before one that is before it in the source, and with `--exactly-once` none comes twice.

With `--brokers 3` each side is three kafkapy brokers on a ZooKeeper, with three replicas of every partition, two of
which must have a record. The brokers that are killed lead most partitions, control the cluster, or coordinate the
mirror's group, its transactional id, or that of a writer. Some are started again before the others have noticed.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, KafkaException, TopicPartition

from compat_tests.chaos.mirror_load import PARTITIONS, TOPICS, WRITER, Load, Verdict, create_topics
from compat_tests.chaos.mirror_sides import Aim, OneBroker, Side, ThreeBrokersSide
from harness.mirror_process import MirrorProcess
from harness.process import wait_for
from harness.real_kafka import ZooKeeper
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError
from kafkapy.clients.groups import committed

MODULE = "compat_tests.chaos.mirror_campaign"
GROUP = "kafkapy-mirror"
GAP_S = 0.2, 2.5
"""Between two kills: a mirror is killed at its start, while it catches up, and when it has nothing to do."""
DOWN_S = 0.0, 1.5
STOPPED_S = 0.5, 4.0
STOPPED_LEADER_S = 0.5, 9.0
"""Longer than its session with ZooKeeper (6 s) at times: then others lead, and it learns that when it goes on."""
AT_ONCE_SHARE = 0.3
"""Brokers of several that are started again before the others have noticed that they were killed."""
WITH_MIRROR_SHARE = 0.3
"""Kills of a broker during which the mirror is killed too."""
CHECK_EVERY = {1: 10, 3: 2}
TICK_S = {1: 0.02, 3: 0.1}
"""Between two writes: six brokers on one machine take fewer records than two."""
CATCH_UP_S = 300.0
END_S = 60.0
FENCED_S = 60.0
HAS_BEGUN = " copied, "
FENCED = "has taken over"


class Kind(Enum):
    """A disturbance, and the process that it hits."""

    MIRROR_KILLED = "mirror killed"
    MIRROR_REPLACED = "mirror stopped, replaced, continued"
    TARGET_KILLED = "target killed"
    SOURCE_KILLED = "source killed"
    TARGET_STOPPED = "target stopped and continued"
    SOURCE_STOPPED = "source stopped and continued"
    TARGET_CONTROLLER_KILLED = "controller of the target killed"
    SOURCE_CONTROLLER_KILLED = "controller of the source killed"
    TARGET_GROUP_KILLED = "coordinator of the mirror's group killed"
    TARGET_TRANSACTIONS_KILLED = "coordinator of the mirror's transactions killed"
    SOURCE_TRANSACTIONS_KILLED = "coordinator of the writer's transactions killed"


WEIGHTS = {
    1: {
        Kind.MIRROR_KILLED: 40,
        Kind.MIRROR_REPLACED: 10,
        Kind.TARGET_KILLED: 15,
        Kind.SOURCE_KILLED: 15,
        Kind.TARGET_STOPPED: 10,
        Kind.SOURCE_STOPPED: 10,
    },
    3: {
        Kind.MIRROR_KILLED: 5,
        Kind.TARGET_KILLED: 20,
        Kind.SOURCE_KILLED: 20,
        Kind.TARGET_STOPPED: 10,
        Kind.SOURCE_STOPPED: 10,
        Kind.TARGET_CONTROLLER_KILLED: 5,
        Kind.SOURCE_CONTROLLER_KILLED: 5,
        Kind.TARGET_GROUP_KILLED: 10,
        Kind.TARGET_TRANSACTIONS_KILLED: 10,
        Kind.SOURCE_TRANSACTIONS_KILLED: 5,
    },
}
"""Of a hundred kills, by the number of brokers of each side. If there are three, TARGET_KILLED kills a leader."""
AIMS = {
    Kind.TARGET_CONTROLLER_KILLED: Aim.CONTROLLER,
    Kind.SOURCE_CONTROLLER_KILLED: Aim.CONTROLLER,
    Kind.TARGET_GROUP_KILLED: Aim.GROUP,
    Kind.TARGET_TRANSACTIONS_KILLED: Aim.TRANSACTIONS,
    Kind.SOURCE_TRANSACTIONS_KILLED: Aim.TRANSACTIONS,
}
OF_SOURCE = frozenset(
    {Kind.SOURCE_KILLED, Kind.SOURCE_STOPPED, Kind.SOURCE_CONTROLLER_KILLED, Kind.SOURCE_TRANSACTIONS_KILLED}
)


class Campaign:
    """Two sides, a load, and a mirror that is killed; ``violations`` are lines."""

    def __init__(
        self,
        directory: Path,
        *,
        seed: int,
        target: str,
        exactly_once: bool,
        brokers: int = 1,
        stopped_s: float | None = None,
    ) -> None:
        self.counts: Counter[Kind] = Counter()
        self.with_mirror = 0
        self.refused_starts = 0
        self.violations: list[str] = []
        self.catch_ups_s: list[float] = []
        self.verdict: Verdict | None = None
        self.transactions: Counter[str] = Counter()
        self._directory = directory
        self._target_kind = target
        self._exactly_once = exactly_once
        self._seed = seed
        self._random = random.Random(seed)
        self._brokers = brokers
        self._waits = stopped_s is not None
        self._stopped_s = (stopped_s, stopped_s) if stopped_s else STOPPED_S if brokers == 1 else STOPPED_LEADER_S
        self._zookeeper: ZooKeeper | None = None
        self._source, self._target = self._sides()
        self._mirrors = 0
        self._mirror: MirrorProcess | None = None

    def run(self, kinds: Sequence[Kind], minutes: float, say: Callable[[str], object] = lambda _: None) -> None:
        """Do what ``kinds`` say, one after the other and no more after so many minutes, then compare both sides."""
        began_s = time.monotonic()
        with ExitStack() as stack:
            self._start_brokers(stack)
            create_topics(self._source.bootstrap, self._source.replicas)
            load = stack.enter_context(Load(self._source.bootstrap, self._seed, TICK_S[self._brokers]))
            stack.callback(self._end_mirror)
            self._start_mirror()
            if self._brokers > 1 or self._waits:
                self._wait_for_beginning()  # before it the target has no leaders, and silent brokers end the mirror
            for number, kind in enumerate(kinds, 1):
                self._live(self._random.uniform(*GAP_S))
                hit_s = time.monotonic()
                self._do(kind)
                self.counts[kind] += 1
                if self._brokers > 1 or len(kinds) < CHECK_EVERY[1]:
                    say(f"{number}: {kind.value}, whole again after {time.monotonic() - hit_s:.1f} s")
                if number % CHECK_EVERY[self._brokers] == 0:
                    took_s = self._catch_up(load)
                    say(
                        f"{number} kills, {len(load.acknowledged)} records, caught up in {took_s:.1f} s,"
                        f" {time.monotonic() - began_s:.0f} s"
                    )
                if self.violations or time.monotonic() - began_s > 60 * minutes:
                    break
            load.finish()
            self._catch_up(load)
            assert self._mirror is not None
            if (code := self._mirror.stop()) != 0:
                self.violations.append(f"the mirror ended with {code} after SIGTERM: {self._mirror.log_tail(3)}")
            self.transactions = load.transactions
            brokers = self._source.bootstrap, self._target.bootstrap
            self.verdict = Verdict.read(load, *brokers, exactly_once=self._exactly_once)
            self.violations += self.verdict.violations
            self._look_for_tracebacks()

    def _sides(self) -> tuple[Side, Side]:
        source, target = self._directory / "source", self._directory / "target"
        if self._brokers == 1:
            return OneBroker(source), OneBroker(target, None if self._target_kind == "kafkapy" else "2.7.2")
        self._zookeeper = ZooKeeper("2.7.2", self._directory / "zookeeper")
        first, second = (
            ThreeBrokersSide(directory, self._zookeeper, topics=TOPICS, group=GROUP, transactional_id=transactional_id)
            for directory, transactional_id in ((source, WRITER), (target, GROUP))
        )
        return first, second

    def _start_brokers(self, stack: ExitStack) -> None:
        if self._zookeeper is not None:
            stack.callback(self._zookeeper.close)
            self._zookeeper.start()
        stack.enter_context(self._source)
        stack.enter_context(self._target)

    def _start_mirror(self) -> None:
        self._mirrors += 1
        words = ["--exactly-once"] if self._exactly_once else []
        directory = self._directory / f"mirror-{self._mirrors % 2}"
        self._mirror = MirrorProcess(self._source.bootstrap, self._target.bootstrap, directory, words)
        self._mirror.log_path.touch()
        self._mirror.start()

    def _wait_for_beginning(self) -> None:
        mirror = self._mirror
        assert mirror is not None
        assert wait_for(lambda: HAS_BEGUN in mirror.said, CATCH_UP_S), f"the mirror does not begin: {mirror.said}"

    def _end_mirror(self) -> None:
        if self._mirror is not None:
            self._mirror.kill()

    def _live(self, seconds: float) -> None:
        """Let time pass, in which a mirror that could not begin is started again."""
        until_s = time.monotonic() + seconds
        while True:
            self._revive()
            if time.monotonic() >= until_s:
                return
            time.sleep(0.05)

    def _revive(self) -> None:
        assert self._mirror is not None
        if not (reason := self._mirror.why_gone()):
            return
        if (
            HAS_BEGUN in self._mirror.said and FENCED not in self._mirror.said
        ):  # it should have waited for a broker that was away
            self.violations.append(reason)
        self.refused_starts += 1
        self._start_mirror()

    def _do(self, kind: Kind) -> None:
        assert self._mirror is not None
        side = self._source if kind in OF_SOURCE else self._target
        match kind:
            case Kind.MIRROR_KILLED:
                self._mirror.kill()
                self._start_mirror()
            case Kind.MIRROR_REPLACED:
                self._replace()
            case Kind.TARGET_STOPPED | Kind.SOURCE_STOPPED:
                self._stop(side)
            case _:
                self._kill(side, AIMS.get(kind, Aim.LEADER))

    def _kill_mirror_perhaps(self) -> None:
        if self._mirror is not None and self._random.random() < WITH_MIRROR_SHARE:
            self._mirror.kill()
            self._start_mirror()
            self.with_mirror += 1

    def _kill(self, side: Side, aim: Aim) -> None:
        side.kill(aim)
        self._kill_mirror_perhaps()
        self._live(self._random.uniform(*DOWN_S))
        side.restart(at_once=self._random.random() < AT_ONCE_SHARE)

    def _stop(self, side: Side) -> None:
        go_on = side.stop(Aim.LEADER)
        try:
            self._kill_mirror_perhaps()
            self._live(self._random.uniform(*self._stopped_s))
        finally:
            go_on()

    def _replace(self) -> None:
        """A mirror that comes back is fenced; without transactions it copies beside the other until it is killed."""
        old = self._mirror
        assert old is not None
        assert old.pid is not None
        os.kill(old.pid, signal.SIGSTOP)
        try:
            self._start_mirror()
            self._live(self._random.uniform(*STOPPED_S))
        finally:
            os.kill(old.pid, signal.SIGCONT)
        if self._exactly_once:
            self._wait_for_fencing(old)
        else:
            self._live(self._random.uniform(*STOPPED_S))
        old.kill()
        if self._mirror is not None and FENCED in self._mirror.said:
            self._start_mirror()

    def _wait_for_fencing(self, old: MirrorProcess) -> None:
        """One of two mirrors ends: the old one, or the new one if the old one had no epoch yet when it was stopped."""
        new = self._mirror
        assert new is not None
        if not wait_for(lambda: bool(old.why_gone() or new.why_gone()), FENCED_S, 0.05):
            self.violations.append(f"two mirrors run after {FENCED_S:.0f} s")
            return
        ended = old if old.why_gone() else new
        if FENCED not in ended.said and (ended is old or HAS_BEGUN in ended.said):
            self.violations.append(f"a mirror was not fenced but ended so: {ended.log_tail(2)}")

    def _catch_up(self, load: Load) -> float:
        """Wait until all is copied that the source has now; the seconds that it took."""
        assert not load.failures, load.failures[:3]
        began_s = time.monotonic()
        goal = _ends(self._source.bootstrap)

        def is_there() -> bool:
            self._revive()
            at = _positions(self._target.bootstrap)
            return all(at.get(place, 0) >= end for place, end in goal.items())

        if not wait_for(is_there, CATCH_UP_S, 0.1):
            assert self._mirror is not None
            self.violations.append(f"not caught up after {CATCH_UP_S:.0f} s: {self._mirror.log_tail(2)}")
        took_s = time.monotonic() - began_s
        self.catch_ups_s.append(took_s)
        return took_s

    def _look_for_tracebacks(self) -> None:
        for path in [*self._source.logs(), *self._target.logs(), *self._directory.glob("mirror-*/process.log")]:
            text = path.read_text(errors="replace")
            if "Traceback" in text:
                name = path.parent.relative_to(self._directory)
                self.violations.append(f"{name} has a traceback: {text[text.index('Traceback') :][:2000]}")


def _ends(bootstrap: str) -> dict[tuple[str, int], int]:
    """The end of each partition of the load's topics."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends", "log_level": 0})
    try:
        places = [(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
        return {place: _end(consumer, place) for place in places}
    finally:
        consumer.close()


def _end(consumer: Consumer, place: tuple[str, int]) -> int:
    """A leader that has just been elected may not know it yet, then it is asked again."""
    until_s = time.monotonic() + END_S
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(*place), timeout=END_S)[1]
        except KafkaException:
            if time.monotonic() > until_s:
                raise
        time.sleep(0.1)


def _positions(bootstrap: str) -> dict[tuple[str, int], int]:
    """The mirror's positions, {} while the target can't tell them."""
    try:
        with ClusterClient(bootstrap) as client:
            return committed(client, GROUP)
    except ClientError:
        return {}


def drawn(kills: int, seed: int, brokers: int = 1) -> list[Kind]:
    """So many kills, in the order that the seed gives; the shares are those of ``WEIGHTS``."""
    source = random.Random(f"kinds-{seed}")
    pool = [kind for kind, weight in WEIGHTS[brokers].items() for _ in range(weight)]
    source.shuffle(pool)
    kinds = [pool[number % len(pool)] for number in range(kills)]
    source.shuffle(kinds)
    return kinds


def main() -> int:
    """Run the campaign of the command line and print its result; 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        f"python -m {MODULE}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--each", type=int, help="so many kills of each kind, in place of --kills")
    parser.add_argument("--minutes", type=float, default=60.0, help="no further kill after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=("kafkapy", "kafka"), default="kafkapy")
    parser.add_argument("--exactly-once", action="store_true")
    parser.add_argument("--brokers", type=int, choices=WEIGHTS, default=1, help="of each side; 3 need --target kafkapy")
    parser.add_argument(
        "--kind", action="append", choices=[each.name.lower() for each in Kind], help="only these, in this order"
    )
    parser.add_argument("--stopped-s", type=float, help="how long brokers are stopped, in place of some seconds")
    options = parser.parse_args()
    if options.brokers > 1 and options.target != "kafkapy":
        parser.error("--brokers 3 is for --target kafkapy")
    kinds = drawn(options.kills, options.seed, options.brokers)
    if options.kind is not None:
        kinds = [Kind[each.upper()] for each in options.kind]
    if options.each is not None:
        kinds = [kind for kind in WEIGHTS[options.brokers] for _ in range(options.each)]
        random.Random(options.seed).shuffle(kinds)
    directory = Path(tempfile.mkdtemp(prefix="mirror-campaign-"))
    print(f"seed {options.seed}; logs and data: {directory}", flush=True)
    campaign = Campaign(
        directory,
        seed=options.seed,
        target=options.target,
        exactly_once=options.exactly_once,
        brokers=options.brokers,
        stopped_s=options.stopped_s,
    )
    began_s = time.monotonic()
    campaign.run(kinds, options.minutes, lambda line: print(line, flush=True))
    for line in summary(campaign, time.monotonic() - began_s):
        print(line)
    if campaign.violations:
        return 1
    shutil.rmtree(directory)
    return 0


def summary(campaign: Campaign, took_s: float) -> list[str]:
    """The result in lines."""
    found = campaign.verdict
    assert found is not None
    waits = sorted(campaign.catch_ups_s)
    kills = (
        f"{sum(campaign.counts.values())} kills in {took_s:.0f} s, and {campaign.with_mirror} of the mirror meanwhile"
    )
    records = f"{found.records} committed records on the source, {found.repeated} of them came again"
    caught_up = f"caught up after: median {median(waits):.1f} s, worst {waits[-1]:.1f} s"
    refused = f"starts of the mirror while a broker was away: {campaign.refused_starts}"
    kinds = sorted(campaign.counts.items(), key=lambda each: each[0].value)
    return [
        f"{kills}; {records}; {len(campaign.violations)} violations",
        *(f"  {kind.value}: {count}" for kind, count in kinds),
        f"  the source's transactions: {dict(campaign.transactions)}",
        f"  {caught_up}; {refused}",
        *(f"VIOLATION {line}" for line in campaign.violations),
    ]


if __name__ == "__main__":
    sys.exit(main())
