"""Kill broker and client while records are read, processed and written in transactions, then check for exactly once.

python -m compat_tests.chaos.exactly_once --records 250000 --seed 1      # some 100,000 transactions
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.chaos.copier import GROUP, PARTITIONS, SOURCE, TARGET, TRANSACTION
from compat_tests.exchange.contents import read_all
from harness.kafkapy_process import ROOT, KafkapyProcess
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.groups import committed

SETTINGS = {"log.segment.bytes": "200000", "transaction.state.log.segment.bytes": "100000"}
QUIET = {"log_level": 0}
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.3, 2.5
STUCK_S = 120


class ExactlyOnce:
    """A broker, a copier, and the checks after all records are copied."""

    def __init__(self, directory: Path, records: int, seed: int, longest_pause_s: float = LONGEST_PAUSE_S) -> None:
        self.kills = {"broker": 0, "copier": 0}
        self._broker = KafkapyProcess(directory=directory, config=SETTINGS)
        self._records = records
        self._longest_pause_s = longest_pause_s
        self._random = random.Random(seed)
        self._copier: subprocess.Popen[bytes] | None = None

    def run(self, say: Callable[[str], object] = lambda _: None) -> int:
        """Copy all records; returns the number of committed transactions."""
        with self._broker:
            self._fill()
            try:
                self._torment(say)
            finally:
                self._end_copier()
            return self._check()

    def _fill(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap, **QUIET})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]).values():
            created.result(30)
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "enable.idempotence": True, **QUIET})
        for number in range(self._records):
            producer.produce(SOURCE, str(number), partition=number % PARTITIONS)
            producer.poll(0)
            if number % 10_000 == 0:
                producer.flush()
        assert producer.flush(60) == 0

    def _torment(self, say: Callable[[str], object]) -> None:
        copied, since_s = -1, time.monotonic()
        while (now := self._copied()) < self._records:
            if now > copied:
                copied, since_s = now, time.monotonic()
            assert time.monotonic() - since_s < STUCK_S, f"{copied} of {self._records} copied, and no more"
            if self._copier is None or self._copier.poll() is not None:
                self._start_copier()
            time.sleep(self._random.uniform(SHORTEST_PAUSE_S, self._longest_pause_s))
            if self._random.random() < 0.5:
                self.kills["broker"] += 1
                self._broker.kill()
                self._broker.start()
            else:
                self.kills["copier"] += 1
                self._end_copier()
            if sum(self.kills.values()) % 50 == 0:
                say(f"{now} of {self._records} records, kills {self.kills}")

    def _start_copier(self) -> None:
        seed = self._random.randrange(1 << 30)
        command = [sys.executable, "-m", "compat_tests.chaos.copier", self._broker.bootstrap, str(seed)]
        self._copier = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)

    def _end_copier(self) -> None:
        copier, self._copier = self._copier, None
        if copier is not None:
            copier.kill()
            copier.wait()

    def _copied(self) -> int:
        """By the committed offsets; librdkafka would wait for the transaction that a dead copier has left open."""
        with ClusterClient(self._broker.bootstrap) as client:
            return sum(committed(client, GROUP).values())

    def _check(self) -> int:
        bootstrap = self._broker.bootstrap
        found = read_all(bootstrap, committed=True)
        for index in range(PARTITIONS):
            expected = [str(number).encode() for number in range(index, self._records, PARTITIONS)]
            assert [each.value for each in found[TARGET, index]] == expected, f"partition {index} differs"
        return len({dict(each.headers)[TRANSACTION] for index in range(PARTITIONS) for each in found[TARGET, index]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=LONGEST_PAUSE_S, help="longest time between kills, seconds")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        run = ExactlyOnce(Path(directory), arguments.records, arguments.seed, arguments.pause)
        transactions = run.run(partial(print, flush=True))
        print(f"exact: {arguments.records} records in {transactions} transactions, kills {run.kills}")


if __name__ == "__main__":
    main()
