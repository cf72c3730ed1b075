"""A consumer whose session ends while it works, and a broker that answers nobody for a second."""

import time

from kafka import KafkaConsumer, KafkaProducer

from kafkapy.testing import Broker

with Broker(topics=["bills"]) as broker:
    consumer = KafkaConsumer(
        "bills",
        bootstrap_servers=broker.bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
    )
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send("bills", b"first").get(10)
    assert next(consumer).value == b"first"

    with broker.faults.expire_member_on(api="Heartbeat", group="billing", count=1) as rule:
        while not rule.fired:
            consumer.poll(100)
    producer.send("bills", b"second").get(10)
    while not any(record.value == b"second" for found in consumer.poll(100).values() for record in found):
        pass
    print("ok: the consumer has joined again")

    began = time.monotonic()
    with broker.faults.pause_on(1000, api="Produce", topic="bills", nth=2) as rule:
        producer.send("bills", b"third").get(10)
        assert time.monotonic() - began < 1
        producer.send("bills", b"fourth").get(10)
    assert rule.fired == 1
    assert time.monotonic() - began >= 1
    print("ok: the fourth record came after the pause")
    producer.close()
    consumer.close()
