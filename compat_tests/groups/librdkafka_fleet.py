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
            on_revoke=lambda revoking, partitions: self._revoked(member, revoking, partitions),
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

    def _revoked(self, member: int, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        positions = [each for each in consumer.position(partitions) if each.offset >= 0]
        try:
            if positions:
                consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as error:
            self.failures.append(f"{member} could not commit: {error}")
        self.taken([each.partition for each in partitions])

    def stop_consumer(self, member: int) -> None:
        self._consumers.pop(member).close()

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def poll(self) -> None:
        for consumer in list(self._consumers.values()):
            for message in consumer.consume(MOST_RECORDS, PATIENCE_S):
                error, partition = message.error(), message.partition()
                if error is None:
                    assert partition is not None
                    self.was_read(partition, int(message.value() or b""))
                elif error.code() != KafkaError.REBALANCE_IN_PROGRESS:  # of a JoinGroup, which is sent again
                    self.failures.append(str(error))
