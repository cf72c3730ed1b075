"""aiokafka, each call in an event loop of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, ProducerFenced, for_code

from compat_tests.clients.client import (
    DEFAULTS,
    EARLIEST,
    TIMEOUT_S,
    GroupState,
    KafkaCodeError,
    Member,
    MemberThread,
    ProduceOptions,
    Received,
    Sent,
    Transaction,
    received_of,
)
from compat_tests.clients.load import LoadThread, Taken

Result = TypeVar("Result")
PRODUCER_FENCED = 90


def _run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    try:
        return asyncio.run(asyncio.wait_for(coroutine, 2 * TIMEOUT_S))
    except KafkaError as error:
        raise KafkaCodeError(getattr(error, "errno", -1), f"{type(error).__name__} {error}") from error


def _check(code: int, message: str = "") -> None:
    if code:
        raise for_code(code)(message)


class AiokafkaClient:
    """Fits aiokafka to the scenarios."""

    name = "aiokafka"
    sends_null_headers = True
    hashes_like_java = True
    is_idempotent = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @asynccontextmanager
    async def _consumer(self, group: str | None = None, **settings: Any) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = self._new_consumer(group, **settings)
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    def _new_consumer(self, group: str | None, **settings: Any) -> AIOKafkaConsumer:
        base = {"bootstrap_servers": self.bootstrap, "group_id": group, "enable_auto_commit": False}
        return AIOKafkaConsumer(**{**base, "auto_offset_reset": "earliest", "session_timeout_ms": 10000, **settings})

    def produce(self, topic: str, records: Sequence[Sent], options: ProduceOptions = DEFAULTS) -> list[tuple[int, int]]:
        async def run() -> list[tuple[int, int]]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if options.codec == "none" else options.codec,
                enable_idempotence=options.idempotent,
                acks="all" if options.acks == -1 else options.acks,
                max_request_size=options.request_limit,
                linger_ms=5,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        record.partition,
                        record.timestamp,
                        list(record.headers),
                    )
                    for record in records
                ]
                places = [await future for future in futures]
            finally:
                await producer.stop()
            return [(place.partition, place.offset) if place is not None else (0, -1) for place in places]

        return _run(run())

    def transact(self, topic: str, transactional_id: str, transactions: Sequence[Transaction]) -> None:
        async def run() -> None:
            producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=transactional_id)
            await producer.start()
            try:
                for each in transactions:
                    await producer.begin_transaction()
                    for value in each.values:
                        await producer.send_and_wait(topic, value, partition=0)
                    if each.group is not None:
                        offsets = {TopicPartition(topic, 0): each.offset}
                        await producer.send_offsets_to_transaction(offsets, each.group)
                    await (producer.commit_transaction if each.commit else producer.abort_transaction)()
            finally:
                await producer.stop()

        _run(run())

    def fence(self, topic: str, transactional_id: str) -> int:
        async def run() -> int:
            first, second = (
                AIOKafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=transactional_id) for _ in range(2)
            )
            try:
                for producer, value in ((first, b"old"), (second, b"new")):
                    await producer.start()
                    await producer.begin_transaction()
                    await producer.send_and_wait(topic, value, partition=0)
                await second.commit_transaction()
                try:
                    await first.commit_transaction()
                except ProducerFenced:
                    return PRODUCER_FENCED
            finally:
                await first.stop()
                await second.stop()
            raise AssertionError("the first producer was not fenced")

        return _run(run())

    def start_load(self, topic: str) -> LoadThread:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, enable_idempotence=True, request_timeout_ms=20_000
            )
            await producer.start()
            return producer

        producer = asyncio.run_coroutine_threadsafe(start(), loop).result(TIMEOUT_S)

        async def put(value: bytes, partition: int, taken: Taken) -> None:
            def done(future: asyncio.Future[Any]) -> None:
                error = future.exception()
                taken(None if error else (future.result().partition, future.result().offset), error)

            (await producer.send(topic, value, partition=partition)).add_done_callback(done)

        def send(value: bytes, partition: int, taken: Taken) -> None:
            asyncio.run_coroutine_threadsafe(put(value, partition, taken), loop).result(TIMEOUT_S)

        def end() -> None:
            asyncio.run_coroutine_threadsafe(producer.stop(), loop).result(TIMEOUT_S)
            loop.call_soon_threadsafe(loop.stop)

        return LoadThread(send, end)

    def consume(
        self, topic: str, count: int, *, partition: int = 0, offset: int = EARLIEST, committed: bool = False
    ) -> list[Received]:
        isolation = "read_committed" if committed else "read_uncommitted"
        place = TopicPartition(topic, partition)

        async def run() -> list[Received]:
            found: list[Received] = []
            async with self._consumer(isolation_level=isolation, auto_offset_reset="none") as consumer:
                consumer.assign([place])
                if offset == EARLIEST:
                    await consumer.seek_to_beginning(place)
                elif offset < 0:
                    await consumer.seek_to_end(place)
                else:
                    consumer.seek(place, offset)
                deadline = asyncio.get_running_loop().time() + TIMEOUT_S
                while len(found) < count and asyncio.get_running_loop().time() < deadline:
                    batches = await consumer.getmany(timeout_ms=500, max_records=count - len(found))
                    for batch in batches.values():
                        found += map(received_of, batch)
            return found

        return _run(run())

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)

        async def run() -> tuple[int, int]:
            async with self._consumer() as consumer:
                first = await consumer.beginning_offsets([place])
                return first[place], (await consumer.end_offsets([place]))[place]

        return _run(run())

    def offset_for_time(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        place = TopicPartition(topic, partition)

        async def run() -> int | None:
            async with self._consumer() as consumer:
                found = (await consumer.offsets_for_times({place: timestamp}))[place]
                return found.offset if found is not None else None

        return _run(run())

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        async def run() -> None:
            async with self._consumer(group) as consumer:
                places = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
                consumer.assign(list(places))
                await consumer.commit(places)

        _run(run())

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        async def run() -> int | None:
            async with self._consumer(group) as consumer:
                found: int | None = await consumer.committed(TopicPartition(topic, partition))
                return found

        return _run(run())

    def join(self, group: str, topic: str, reset: str = "earliest") -> Member:
        loop = asyncio.new_event_loop()
        consumers: list[AIOKafkaConsumer] = []

        async def start() -> None:
            consumer = self._new_consumer(group, heartbeat_interval_ms=500, auto_offset_reset=reset)
            consumer.subscribe([topic])
            consumers.append(consumer)
            await consumer.start()

        async def step(member: MemberThread) -> None:
            if not consumers:
                await start()
            (consumer,) = consumers
            for batch in (await consumer.getmany(timeout_ms=100)).values():
                member.received += map(received_of, batch)
            member.assignment = {place.partition for place in consumer.assignment()}
            if member.commits_wanted > member.commits_done:
                await consumer.commit()
                member.commits_done += 1

        def end() -> None:
            for consumer in consumers:
                loop.run_until_complete(consumer.stop())
            loop.close()

        return MemberThread(lambda member: loop.run_until_complete(step(member)), end)

    def _ask(self, question: Callable[[AIOKafkaAdminClient], Awaitable[Result]]) -> Result:
        async def run() -> Result:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                return await question(admin)
            finally:
                await admin.close()

        return _run(run())

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        async def create(admin: AIOKafkaAdminClient) -> list[tuple[Any, ...]]:
            brokers = (await admin.describe_cluster())["brokers"]
            # The broker's default, spelled out: aiokafka 0.14 refuses a factor of -1.
            new = NewTopic(topic, partitions, min(3, len(brokers)), topic_configs=dict(configs or {}))
            found: list[tuple[Any, ...]] = (await admin.create_topics([new])).topic_errors
            return found

        for _, code, *message in self._ask(create):
            if code:
                raise KafkaCodeError(code, str(message))

    def delete_topic(self, topic: str) -> None:
        for _, code in self._ask(lambda admin: admin.delete_topics([topic])).topic_error_codes:
            if code:
                raise KafkaCodeError(code)

    def topics(self) -> dict[str, int]:
        found = self._ask(lambda admin: admin.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in found}

    def add_partitions(self, topic: str, total: int) -> None:
        self._ask(lambda admin: admin.create_partitions({topic: NewPartitions(total)}))

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (response,) = self._ask(lambda admin: admin.describe_configs([resource]))
        ((code, message, _, _, entries),) = response.resources
        if code:
            raise KafkaCodeError(code, message)
        return {entry[0]: entry[1] for entry in entries}

    def set_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        (response,) = self._ask(lambda admin: admin.alter_configs([resource]))
        for code, message, *_ in response.resources:
            if code:
                raise KafkaCodeError(code, message)

    def delete_records(self, topic: str, before: int) -> int:
        place = TopicPartition(topic, 0)
        low: int = self._ask(lambda admin: admin.delete_records({place: RecordsToDelete(before)}))[place]
        return low

    def describe_group(self, group: str) -> GroupState:
        (response,) = self._ask(lambda admin: admin.describe_consumer_groups([group]))
        (found,) = response.groups
        code, _, state, protocol_type, _, members, *_ = found
        if code:
            raise KafkaCodeError(code)
        return GroupState(state, protocol_type, len(members))

    def groups(self) -> set[str]:
        return {group for group, _ in self._ask(lambda admin: admin.list_consumer_groups())}

    def delete_group(self, group: str) -> None:
        pytest.skip("aiokafka's admin client deletes no groups")
