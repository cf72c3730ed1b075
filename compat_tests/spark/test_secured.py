"""Spark's Kafka source and sink over TLS, with a password, and with a delegation token that Spark obtains itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.brokers.topics import create_topic
from compat_tests.security.secured import SecuredBroker, secured
from harness.process import Broker

pytest.importorskip("pyspark", reason="comes with the spark extra")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from compat_tests.spark.conftest import Lake

KIND, PASSWORD_KIND = "scram", "sasl_ssl"
"""SASL_SSL with SCRAM, and with PLAIN."""
VALUES = [b"%d" % number for number in range(100)]
WAIT_S = 30
pytestmark = [
    pytest.mark.scenario("security", client="spark"),
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.long_on_clusters,
    pytest.mark.together,
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def secured_broker(broker: Broker) -> Iterator[SecuredBroker]:
    with secured(broker) as found:
        yield found


def copy(spark: "SparkSession", settings: dict[str, str], topic: str, checkpoints: Path) -> None:
    """Copy a topic of Spark's source to ``<topic>-batch`` and ``<topic>-stream`` with Spark's sink."""
    options = settings | {"subscribe": topic, "startingOffsets": "earliest"}
    batch = spark.read.format("kafka").options(**options).load().select("value")
    batch.write.format("kafka").options(**settings, topic=f"{topic}-batch").save()
    stream = spark.readStream.format("kafka").options(**options).load().select("value")
    sink = stream.writeStream.format("kafka").options(**settings, topic=f"{topic}-stream")
    sink.option("checkpointLocation", str(checkpoints)).trigger(availableNow=True).start().awaitTermination(WAIT_S)


def check_copies(
    broker: SecuredBroker, settings: dict[str, str], topic: str, spark: "SparkSession", path: Path
) -> None:
    """Copy records with these settings; a client without Spark writes and reads them."""
    for name in (topic, f"{topic}-batch", f"{topic}-stream"):
        create_topic(broker.process.bootstrap, name)
    client = broker.client_settings(KIND, "confluent-kafka")
    producer = Producer(client)
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0
    copy(spark, settings, topic, path / "checkpoints")
    consumer = Consumer({**client, "group.id": topic, "auto.offset.reset": "earliest"})
    for name in (f"{topic}-batch", f"{topic}-stream"):
        consumer.subscribe([name])
        assert [each.value() for each in consumer.consume(len(VALUES), WAIT_S)] == VALUES
    consumer.close()


def test_a_password(secured_broker: SecuredBroker, lake: "Lake", topic_name: str, tmp_path: Path) -> None:
    settings = {name: str(value) for name, value in secured_broker.client_settings(KIND, "spark").items()}
    check_copies(secured_broker, settings, topic_name, lake.spark, tmp_path)


def test_a_delegation_token(secured_broker: SecuredBroker, lake: "Lake", topic_name: str, tmp_path: Path) -> None:
    """Spark makes a token with the password and gives it to its tasks, as its cluster managers have it do."""
    password = secured_broker.client_settings(PASSWORD_KIND, "java")
    obtain_token(lake.spark, topic_name, password, secured_broker.addresses[KIND])
    whole = {name: str(value) for name, value in secured_broker.client_settings(KIND, "spark").items()}
    settings = {name: value for name, value in whole.items() if not name.startswith("kafka.sasl.")}
    check_copies(secured_broker, settings, topic_name, lake.spark, tmp_path)


def obtain_token(spark: "SparkSession", cluster: str, login: dict[str, object], target: str) -> None:
    """Let Spark's token provider make a token at the address of ``login`` for use at ``target``.

    In local mode nothing calls the provider: its callers are YARN, Kubernetes and standalone clusters.
    """
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    prefix = f"spark.kafka.clusters.{cluster}."
    conf.set(f"{prefix}auth.bootstrap.servers", login["bootstrap.servers"])
    conf.set(f"{prefix}target.bootstrap.servers.regex", target)
    conf.set(f"{prefix}security.protocol", login["security.protocol"])
    conf.set(f"{prefix}sasl.token.mechanism", "SCRAM-SHA-256")
    for name, value in login.items():
        conf.set(f"{prefix}kafka.{name}", value)
    credentials = jvm.org.apache.hadoop.security.Credentials()
    provider = jvm.org.apache.spark.kafka010.KafkaDelegationTokenProvider()
    provider.obtainDelegationTokens(jvm.org.apache.hadoop.conf.Configuration(), conf, credentials)
    assert credentials.numberOfTokens() == 1
    jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addCredentials(credentials)
