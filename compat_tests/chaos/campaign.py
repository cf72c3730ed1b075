"""Kill a broker again and again under load: `python -m compat_tests.chaos.campaign --kills 1000`.

Idempotent producers write all the time, over two log directories: to a topic that keeps everything, to one whose oldest
segments are deleted meanwhile, and to a compacted one; a group commits offsets. Segments are small, so that rolls,
flushes, checkpoints, deletions and compactions are under way at any moment. At the end every record is at the offset
that was acknowledged, once, in order (of the compacted topic the newest of each key), the last committed offset is
there, and `kafkapy log verify` finds nothing wrong. With `--power` the log directories are on an ext4 of its own that
loses what it has not fsynced at each kill, and the broker has `kafkapy.flush=ack`.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.chaos.load import PARTITIONS, Commits, Load
from compat_tests.chaos.power import PowerCutDisk
from harness.kafkapy_process import KafkapyProcess, kafkapy_command

SETTINGS = {
    "log.segment.bytes": "65536",
    "log.index.interval.bytes": "1024",
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.backoff.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "400",
    "log.flush.start.offset.checkpoint.interval.ms": "400",
}
FLUSH_BEFORE_ACK = {"kafkapy.flush": "ack"}
TOPICS: dict[str, dict[str, str]] = {
    "kept": {},
    "shortened": {"retention.bytes": "200000"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}
KEYS = 200
COMMIT_EVERY = 5
LEAST_RECORDS = 6000
START_S = 60
PATIENCE_S = 600  # on a busy machine dozens of kills in a row may delay a record of one topic


def create_topics(bootstrap: str) -> None:
    """Create the topics of the campaign."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, PARTITIONS, 1, config=config) for name, config in TOPICS.items()]
    for created in admin.create_topics(topics).values():
        created.result(START_S)


class Campaign:
    """A broker in `directory`, with `settings` of its own, under producers; `end` is how it ends each time."""

    def __init__(
        self,
        directory: Path,
        end: Callable[[KafkapyProcess], None],
        *,
        seed: int,
        settings: dict[str, str],
        log: Path | None = None,
    ) -> None:
        """`log` is the file for the broker's log, since the broker's own disk may lose its content."""
        self.directories = [directory / "data", directory / "more"]
        log_dirs = ",".join(map(str, self.directories))
        self.broker = KafkapyProcess(directory=directory, config={**SETTINGS, **settings, "log.dirs": log_dirs})
        self.broker.log_path = log or self.broker.log_path
        self.kills = 0
        self._end = end
        self._random = random.Random(seed)

    def run(self, kills: int, *, check_every: int = 1_000_000, say: Callable[[str], object] = lambda _: None) -> int:
        """Kill `kills` times and check; return the number of acknowledged records.

        Each topic gets enough records for a deletion and a compaction.
        """
        with self.broker, ExitStack() as stack:
            bootstrap = self.broker.bootstrap
            create_topics(bootstrap)
            kept, shortened, compacted = loads = [
                stack.enter_context(Load(bootstrap, topic, pause_every=4, queue=800, timeout_s=PATIENCE_S, keys=keys))
                for topic, keys in zip(TOPICS, (0, 0, KEYS), strict=True)
            ]
            commits = stack.enter_context(Commits(bootstrap, "kept"))
            began_s = time.monotonic()
            for number in range(1, kills + 1):
                loads[number % 3].wait_for_more(self._random.randrange(1, 250))
                if number % COMMIT_EVERY == 0:
                    commits.commit()
                self._end(self.broker)
                self.kills += 1
                self.broker.start()
                if number % check_every == 0:
                    acknowledged = sum(load.acknowledged_count for load in loads)
                    say(f"{number} kills, {acknowledged} records, {time.monotonic() - began_s:.0f} s")
                    for load in loads:
                        assert not load.failures, load.failures[:3]
                    commits.check()
            for load in loads:
                load.wait_for_more(max(LEAST_RECORDS - load.acknowledged_count, 0))
                load.finish()
            kept.check()
            shortened.check_suffix()
            compacted.check_newest()
            commits.check()
            assert self.broker.stop() == 0
            _, _, fault = self.broker.log_tail(1_000_000).partition("Traceback")
            assert not fault, fault[:3000]
            self._verify()
            return sum(load.acknowledged_count for load in loads)

    def _verify(self) -> None:
        for directory in self.directories:
            assert any(path.is_dir() for path in directory.iterdir())
            command = [*kafkapy_command(), "log", "verify", str(directory)]
            found = subprocess.run(command, check=False, capture_output=True, text=True, env=self.broker.environment())
            assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]


def main() -> None:
    """Run the campaign of the command line and print its result."""
    parser = argparse.ArgumentParser(description="Kill a broker again and again under load.")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--check-every", type=int, default=50, metavar="KILLS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--power", action="store_true", help="lose what was not fsynced, too (root, ext4)")
    parser.add_argument("--log", type=Path, help="where the broker's log is kept; without it, only if something fails")
    options = parser.parse_args()
    log = options.log or Path(tempfile.mkdtemp(prefix="campaign-log-")) / "broker.log"
    print_now(f"The broker's log: {log}")
    run(options, log)
    if not options.log:
        shutil.rmtree(log.parent)


def run(options: argparse.Namespace, log: Path) -> None:
    """One campaign in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        directory, config = Path(name) / "broker", dict[str, str]()
        end: Callable[[KafkapyProcess], None] = KafkapyProcess.kill
        if options.power:
            disk = stack.enter_context(PowerCutDisk(Path(name), size_mb=4096))
            directory, end, config = disk.path / "broker", disk.end, FLUSH_BEFORE_ACK
        campaign = Campaign(directory, end, seed=options.seed, settings=config, log=log)
        acknowledged = campaign.run(options.kills, check_every=options.check_every, say=print_now)
    print_now(f"{campaign.kills} kills, {acknowledged} records acknowledged: each once, in order, at its offset")


def print_now(line: str) -> None:
    """Print a line that a log shows at once."""
    print(line, file=sys.stdout, flush=True)


if __name__ == "__main__":
    main()
