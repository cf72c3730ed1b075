"""Kill a broker again and again under load: `python -m compat_tests.chaos.campaign --kills 1000`.

Two idempotent producers write all the time, to a topic that keeps everything and to one whose oldest segments are
deleted meanwhile; segments are small, so that rolls, flushes, checkpoints and deletions are under way at any moment. At
the end (and each `--check-every` kills) every record is at the offset that was acknowledged, once, in order. With
`--power` the data directory is an ext4 of its own that loses what it has not fsynced at each kill, and the topics have
`kafkapy.flush=ack`.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.chaos.load import PARTITIONS, Load
from compat_tests.chaos.power import PowerCutDisk
from compat_tests.kafkapy_process import KafkapyProcess

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
TOPICS: dict[str, dict[str, str]] = {"kept": {}, "shortened": {"retention.bytes": "200000"}}
START_S = 60
PATIENCE_S = 600  # on a busy machine a record of one topic can be unlucky at dozens of kills in a row


def create_topics(bootstrap: str, more: dict[str, str]) -> None:
    """Make the topics of the campaign."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, PARTITIONS, 1, config={**config, **more}) for name, config in TOPICS.items()]
    for created in admin.create_topics(topics).values():
        created.result(START_S)


class Campaign:
    """A broker in `directory` under two producers; `end` is how it ends each time."""

    def __init__(
        self, directory: Path, end: Callable[[KafkapyProcess], None], *, seed: int, topic_config: dict[str, str]
    ) -> None:
        self.broker = KafkapyProcess(directory=directory, config=SETTINGS)
        self.kills = 0
        self._end = end
        self._random = random.Random(seed)
        self._topic_config = topic_config

    def run(self, kills: int, *, check_every: int = 1_000_000, say: Callable[[str], object] = lambda _: None) -> int:
        """Kill `kills` times and check; return how many records were acknowledged."""
        with self.broker, ExitStack() as stack:
            bootstrap = self.broker.bootstrap
            create_topics(bootstrap, self._topic_config)
            kept = stack.enter_context(Load(bootstrap, "kept", pause_every=4, queue=800, timeout_s=PATIENCE_S))
            shortened = stack.enter_context(
                Load(bootstrap, "shortened", pause_every=4, queue=800, timeout_s=PATIENCE_S)
            )
            loads = (kept, shortened)
            began_s = time.monotonic()
            for number in range(1, kills + 1):
                loads[number % 2].wait_for_more(self._random.randrange(1, 250))
                self._end(self.broker)
                self.kills += 1
                self.broker.start()
                if number % check_every == 0:
                    acknowledged = sum(load.acknowledged_count for load in loads)
                    say(f"{number} kills, {acknowledged} records, {time.monotonic() - began_s:.0f} s")
                    assert not kept.failures, kept.failures[:3]
                    assert not shortened.failures, shortened.failures[:3]
            for load in loads:
                load.finish()
            kept.check()
            shortened.check_suffix()
            assert self.broker.stop() == 0
            assert "Traceback" not in self.broker.log_tail(100_000)
            return sum(load.acknowledged_count for load in loads)


def main() -> None:
    """Run the campaign that the command line asks for and say how it went."""
    parser = argparse.ArgumentParser(description="Kill a broker again and again under load.")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--check-every", type=int, default=50, metavar="KILLS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--power", action="store_true", help="lose what was not fsynced, too (root, ext4)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        directory, config = Path(name) / "broker", dict[str, str]()
        end: Callable[[KafkapyProcess], None] = KafkapyProcess.kill
        if options.power:
            disk = stack.enter_context(PowerCutDisk(Path(name), size_mb=4096))
            directory, end, config = disk.path / "broker", disk.end, FLUSH_BEFORE_ACK
        campaign = Campaign(directory, end, seed=options.seed, topic_config=config)
        acknowledged = campaign.run(options.kills, check_every=options.check_every, say=print_now)
    print_now(f"{campaign.kills} kills, {acknowledged} records acknowledged: each once, in order, at its offset")


def print_now(line: str) -> None:
    """Print a line that a log shows at once."""
    print(line, file=sys.stdout, flush=True)


if __name__ == "__main__":
    main()
