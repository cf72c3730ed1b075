"""A broker that says twice that another one leads, and then keeps records for an hour that is over at once."""

from datetime import timedelta

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kafkapy.testing import Broker

ORDERS = TopicPartition("orders", 0)

with Broker({"log.retention.ms": 3_600_000}, topics=["orders"]) as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    with broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", topic="orders", count=2) as rule:
        producer.send("orders", b"first").get(10)
    assert rule.fired == 2
    print("ok: the producer has tried again")
    producer.close()

    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    assert consumer.beginning_offsets([ORDERS]) == {ORDERS: 0}
    print("ok: the record is there")
    broker.clock.advance(timedelta(hours=2))
    assert consumer.beginning_offsets([ORDERS]) == {ORDERS: 1}
    print("ok: its hour is over")
    consumer.close()
