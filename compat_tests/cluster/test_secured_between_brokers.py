"""A kafkapy broker and one of Apache Kafka 2.7.2 that reach each other over TLS and SASL alone."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from compat_tests.security.kerberos import HOST as LOCALHOST
from compat_tests.security.kerberos import SERVICE, realm
from harness.cluster import SESSION_MS, WAIT_S, Cluster, eventually, tree_at
from harness.process import free_port
from harness.real_kafka import RealKafka, ZooKeeper
from kafkapy.security.certificates import LOCAL_HOSTS, Authority
from kafkapy.security.scram import ScramCredential

__all__ = ["realm"]
pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

OURS, THEIRS = 1, 2
AUTHORITY = Authority("authority", time.time_ns() // 1_000_000)
KINDS = {
    "mtls": ("SSL", ""),
    "plain": ("SASL_SSL", "PLAIN"),
    "scram": ("SASL_SSL", "SCRAM-SHA-512"),
    "oauth": ("SASL_SSL", "OAUTHBEARER"),
    "gssapi": ("SASL_PLAINTEXT", "GSSAPI"),
}
LOGIN = 'username="admin" password="admin-secret"'
MODULES = {
    "PLAIN": f'org.apache.kafka.common.security.plain.PlainLoginModule required {LOGIN} user_admin="admin-secret";',
    "SCRAM-SHA-512": f"org.apache.kafka.common.security.scram.ScramLoginModule required {LOGIN};",
    "OAUTHBEARER": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="admin" unsecuredLoginListClaim_scope=",brokers"'
        ' unsecuredValidatorRequiredScope="brokers" unsecuredLoginExtension_trace="1";'
    ),
}


def _settings(kind: str, name: str, module: str) -> dict[str, str]:
    """The keys of one broker; clients of the test use the listener without security."""
    protocol, mechanism = KINDS[kind]
    key, certificate = AUTHORITY.issue(name, LOCAL_HOSTS)
    settings = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,INSIDE:{protocol}",
        "inter.broker.listener.name": "INSIDE",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.certificate,
        "ssl.client.auth": "required" if kind == "mtls" else "none",
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "default.replication.factor": "2",
    }
    if mechanism:
        settings |= {"sasl.enabled.mechanisms": mechanism, "sasl.mechanism.inter.broker.protocol": mechanism}
        settings[f"listener.name.inside.{mechanism.lower()}.sasl.jaas.config"] = module
        settings["sasl.kerberos.service.name"] = "kafka"
    return settings


@pytest.fixture(params=[(kind, first) for kind in KINDS for first in (OURS, THEIRS)], ids=str)
def cluster(zookeeper: ZooKeeper, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The first broker is the controller."""
    kind, first = request.param
    mechanism = KINDS[kind][1]
    module = MODULES.get(mechanism, "")
    if mechanism == "GSSAPI":
        module = request.getfixturevalue("realm").jaas(SERVICE)
    cluster = Cluster(zookeeper, 1, _settings(kind, "ours", module))
    config = {**cluster.config, **_settings(kind, "theirs", module)}  # both have the same number of coordinators
    cluster.brokers[THEIRS] = RealKafka("2.7.2", zookeeper=zookeeper, broker_id=THEIRS, config=config)
    for broker in cluster.brokers.values():
        inside = f"INSIDE://{LOCALHOST}:{free_port()}"
        broker.overrides["listeners"] = f"PLAINTEXT://{broker.bootstrap},{inside}"
    if kind == "scram":
        credential = ScramCredential.of_password("SCRAM-SHA-512", "admin-secret", b"salt", 4096)
        with tree_at(cluster.zookeeper_connect) as tree:
            node = {"version": 1, "config": {"SCRAM-SHA-512": str(credential)}}
            tree.create("/config/users/admin", json.dumps(node).encode(), makepath=True)
    with ExitStack() as stack:
        for number in (first, OURS + THEIRS - first):
            stack.enter_context(cluster.brokers[number])
        eventually(lambda: cluster.agrees([OURS, THEIRS]))
        assert cluster.controller(OURS) == first
        yield cluster
        for broker in cluster.brokers.values():
            print(broker.log_tail())


def test_brokers_replicate_and_write_markers_to_each_other(cluster: Cluster) -> None:
    admin = cluster.admin(OURS)  # its answers end with it
    (created,) = admin.create_topics([NewTopic("t", 2, 2)]).values()
    created.result(WAIT_S)
    eventually(lambda: sorted(cluster.led(THEIRS, "t").values()) == [OURS, THEIRS])
    written = []
    for via in (OURS, THEIRS):
        here = {"bootstrap.servers": cluster.brokers[via].bootstrap, "acks": "all"}
        for number in range(4):  # the coordinators of some of these are the other broker
            producer = Producer({**here, "transactional.id": f"{via}-{number}"})
            producer.init_transactions(WAIT_S)
            producer.begin_transaction()
            for partition in range(2):
                written.append(b"%d-%d-%d" % (via, number, partition))
                producer.produce("t", written[-1], partition=partition)
            producer.commit_transaction(WAIT_S)
    assert cluster.consume(OURS, "t", range(2), len(written)) == sorted(written)
    in_sync = cluster.metadata(OURS).topics["t"].partitions.values()
    assert [sorted(each.isrs) for each in in_sync] == [[OURS, THEIRS]] * 2
