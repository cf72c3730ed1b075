"""Reads, processes and writes exactly once, as a process that may be killed: records of ``in`` go to ``out``.

python -m compat_tests.chaos.copier BOOTSTRAP SEED
"""

import random
import sys
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SOURCE, TARGET, GROUP, TRANSACTIONAL_ID = "in", "out", "copiers", "copier"
TRANSACTION = "transaction"
"""A header of each written record: the transaction and the incarnation."""
PARTITIONS = 3
MOST_RECORDS = 4
TIMEOUT_S = 60
IMPATIENT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20, "log_level": 0}


class Copier:
    """One incarnation: it fences the one before, and continues at the committed offsets."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        base = {"bootstrap.servers": bootstrap, **IMPATIENT}
        self._random = random.Random(seed)
        self._seed = seed
        self._begun = 0
        self._producer = Producer({**base, "transactional.id": TRANSACTIONAL_ID, "transaction.timeout.ms": 20_000})
        self._consumer = Consumer(
            {
                **base,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
            }
        )

    def run(self) -> None:
        """Copy until killed, or until a fatal error ends this incarnation."""
        self._producer.init_transactions(TIMEOUT_S)
        self._go_back()
        while True:
            messages = self._consumer.consume(self._random.randint(1, MOST_RECORDS), 0.5)
            found = [each for each in messages if each.error() is None]
            if found:
                self._copy(found)

    def _go_back(self) -> None:
        """To the committed offsets."""
        places = [TopicPartition(SOURCE, index) for index in range(PARTITIONS)]
        committed = self._consumer.committed(places, TIMEOUT_S)
        self._consumer.assign([TopicPartition(SOURCE, each.partition, max(each.offset, 0)) for each in committed])

    def _copy(self, messages: list[Message]) -> None:
        producer = self._producer
        producer.begin_transaction()
        self._begun += 1
        headers: dict[str, str | bytes | None] = {TRANSACTION: f"{self._seed}-{self._begun}"}
        next_offsets: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            producer.produce(TARGET, message.value(), partition=partition, headers=headers)
            next_offsets[partition] = offset + 1
        offsets = [TopicPartition(SOURCE, index, offset) for index, offset in next_offsets.items()]
        try:
            if self._random.random() < 0.1:
                producer.flush(TIMEOUT_S)
                producer.abort_transaction(TIMEOUT_S)  # some transactions are aborted without an error
                self._go_back()
                return
            metadata = self._consumer.consumer_group_metadata()
            self._patiently(lambda: producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_S))
            self._patiently(lambda: producer.commit_transaction(TIMEOUT_S))
        except KafkaException as failed:
            error: KafkaError = failed.args[0]
            if not error.txn_requires_abort():
                raise
            self._patiently(lambda: producer.abort_transaction(TIMEOUT_S))
            self._go_back()

    @staticmethod
    def _patiently(action: Callable[[], object]) -> None:
        """Call it again while the library reports a retriable error."""
        while True:
            try:
                action()
            except KafkaException as failed:
                if not failed.args[0].retriable():
                    raise
            else:
                return


if __name__ == "__main__":
    Copier(sys.argv[1], int(sys.argv[2])).run()
