"""A fleet of consumers of librdkafka, polled in turns by one thread.

Its strategy ``cooperative-sticky`` sends data of its own with the assignment, so that Apache Kafka 4.4 and kafkapy
refuse to upgrade a group that uses it.
"""

from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from compat_tests.groups.fleet import CLASSIC, Fleet

MOST_RECORDS: Final = 500
PATIENCE_S: Final = 0.01


class LibrdkafkaFleet(Fleet):
    """See ``Fleet``."""

    def __init__(self, bootstrap: str, topic: str, *, is_static: bool) -> None:
        super().__init__(topic)
        self._bootstrap = bootstrap
        self._is_static = is_static
        self._consumers: dict[int, Consumer] = {}

    def start_consumer(self, member: int, protocol: str) -> None:
        consumer = Consumer(self._settings(member, protocol))
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, partitions: self.given(member, [each.partition for each in partitions]),
            on_revoke=self._revoked,
            on_lost=lambda _, partitions: self.lost([each.partition for each in partitions]),
        )
        self._consumers[member] = consumer

    def _settings(self, member: int, protocol: str) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self.topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": protocol,
            "log_level": 0,
        }
        if self._is_static:
            settings["group.instance.id"] = f"member-{member}"
        if protocol == CLASSIC:
            settings |= {"heartbeat.interval.ms": 200, "session.timeout.ms": 20_000}
        return settings

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [each.partition for each in partitions]
        if self._commit(consumer, numbers):
            self.taken(numbers)
        else:
            self.lost(numbers)

    def _commit(self, consumer: Consumer, partitions: list[int]) -> bool:
        """Commit what was read, and tell whether the broker has it; librdkafka forgets positions while it is closed."""
        offsets = [TopicPartition(self.topic, each, self.count_of(each)) for each in partitions]
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return False
        return True

    def stop_consumer(self, member: int) -> None:
        consumer = self._consumers.pop(member)
        self._commit(consumer, [each.partition for each in consumer.assignment()])
        consumer.close()

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def poll(self) -> None:
        for consumer in list(self._consumers.values()):
            for _ in range(MOST_RECORDS):
                message = consumer.poll(PATIENCE_S)
                if message is None:
                    break
                error, partition = message.error(), message.partition()
                if error is None:
                    assert partition is not None
                    self.was_read(partition, int(message.value() or b""))
                elif error.code() != KafkaError.REBALANCE_IN_PROGRESS:  # of a JoinGroup, which is sent again
                    self.failures.append(str(error))
