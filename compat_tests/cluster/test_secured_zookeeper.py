"""Brokers on a ZooKeeper that refuses clients without a password or a certificate, beside Apache Kafka 2.7.2."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from harness.cluster import SETTINGS, WAIT_S, Cluster, eventually
from harness.kafkapy_process import kafkapy_command
from harness.process import BrokerError, ChildProcess
from harness.real_kafka import write_properties
from harness.secured_zookeeper import (
    JAAS_FILE,
    SecuredKafkapy,
    SecuredZooKeeper,
    access_lists,
    apache_broker,
)
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.original.registry import KazooRegistry
from kafkapy.clients.original.settings import Properties, ZooKeeperConnectSettings
from kafkapy.clients.users import set_password
from kafkapy.security.certificates import Authority

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

OURS, THEIRS = 1, 2
UNTRUSTED_MS = "1500"
"""How long a broker tries that trusts no server, or is trusted by none; others get an answer, however long it takes."""
EVERYTHING = {
    **SETTINGS,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.master.key": "the-master-key",
}

OF_LATER_RELEASES = ("/config/group_changes", "/kafka-acl/User", "/kafka-acl-extended/prefixed/User")
"""Nodes that 2.7.2 does not make."""


@pytest.fixture(scope="module")
def keeper() -> Iterator[SecuredZooKeeper]:
    """A server that wants both."""
    with SecuredZooKeeper(has_tls=True, has_sasl=True) as found:
        yield found


def _use(broker: ChildProcess) -> None:
    """Makes the broker write nodes of every kind."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    (created,) = admin.create_topics([NewTopic("t", 2, 1)]).values()
    created.result(WAIT_S)
    (altered,) = admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, "t", {"retention.ms": "1"})]).values()
    altered.result(WAIT_S)
    number = ConfigResource(ConfigResource.Type.BROKER, "1", {"log.cleaner.threads": "2"})
    (altered,) = admin.alter_configs([number]).values()
    altered.result(WAIT_S)
    for pattern in (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED):
        binding = AclBinding(
            ResourceType.TOPIC, "t", pattern, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
        )
        (added,) = admin.create_acls([binding]).values()
        added.result(WAIT_S)
    with ClusterClient(broker.bootstrap) as client:
        set_password(client, "alice", "alice-secret", ["SCRAM-SHA-256"])
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    producer.produce("t", b"v")
    assert producer.flush(WAIT_S) == 0


def test_nodes_have_the_access_lists_that_apache_kafka_gives_them(keeper: SecuredZooKeeper) -> None:
    found = []
    for chroot, new_broker in (("/theirs/tree", apache_broker), ("/ours/tree", SecuredKafkapy)):
        broker = new_broker(keeper, 1, {**EVERYTHING, **keeper.broker_settings(chroot)})
        with broker:
            _use(broker)
            with keeper.tree(chroot) as tree:
                found.append(access_lists(tree))
            with keeper.tree() as tree:
                found[-1]["parent"] = access_lists(tree, chroot.removesuffix("/tree"))[chroot.removesuffix("/tree")]
    theirs, ours = found
    for path in OF_LATER_RELEASES:
        assert ours.pop(path) == ours["/kafka-acl/Topic"]
    assert ours == theirs
    owners = [(31, "sasl", "kafka"), (31, "x509", "CN=broker")]
    assert ours["/brokers/topics/t"] == [(1, "world", "anyone"), *owners]
    for path in ("/config/users/alice", "/config/brokers/1", "/delegation_token/tokens"):
        assert ours[path] == owners
    assert "/kafka-acl-extended/prefixed/Topic/t" in ours


@pytest.fixture(params=["sasl", "tls"])
def mixed(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Broker 1 of kafkapy, which is the controller, and broker 2 of Apache Kafka; both run."""
    with ExitStack() as stack:
        kind = request.param
        server = stack.enter_context(SecuredZooKeeper(has_tls=kind == "tls", has_sasl=kind == "sasl"))
        config = {"default.replication.factor": "2", **server.broker_settings("/kafka")}
        cluster = Cluster(server, 0, config)
        cluster.brokers[OURS] = SecuredKafkapy(server, OURS, cluster.config)
        cluster.brokers[THEIRS] = apache_broker(server, THEIRS, cluster.config)
        stack.enter_context(cluster)
        assert cluster.controller(OURS) == OURS
        yield cluster


def _move_controller(cluster: Cluster, to: int) -> None:
    """Ends the controller cleanly; the other broker takes over, and the ended one comes back."""
    other = OURS + THEIRS - to
    cluster.brokers[other].stop()
    eventually(lambda: cluster.controller(to) == to)
    cluster.brokers[other].start()
    eventually(lambda: cluster.agrees([OURS, THEIRS]))
    assert cluster.controller(other) == to


def test_a_mixed_cluster_moves_its_controller_and_serves_clients(mixed: Cluster) -> None:
    admin = mixed.admin(OURS)  # its answers end with it
    (created,) = admin.create_topics([NewTopic("t", 2, 2)]).values()
    created.result(WAIT_S)
    eventually(lambda: sorted(mixed.led(THEIRS, "t").values()) == [OURS, THEIRS])
    mixed.produce(THEIRS, "t", [b"1", b"2"], range(2))
    for controller in (THEIRS, OURS):
        _move_controller(mixed, controller)
        in_sync = [OURS, THEIRS]
        eventually(
            lambda: all(
                sorted(each.isrs) == in_sync  # noqa: B023
                for each in mixed.metadata(OURS).topics["t"].partitions.values()
            )
        )
        mixed.create(controller, f"by-{controller}", 2)
        mixed.produce(OURS, "t", [b"3", b"4"], range(2))
    assert mixed.consume(THEIRS, "t", range(2), 6) == [b"1", b"2", b"3", b"3", b"4", b"4"]


def _refusal(keeper: SecuredZooKeeper, changes: Mapping[str, str], jvm_options: list[str] | None = None) -> str:
    """The last line of a broker of kafkapy that does not start."""
    broker = SecuredKafkapy(keeper, 1, {**SETTINGS, **keeper.broker_settings("/refused"), **changes})
    if jvm_options is not None:
        broker.jvm_options = jvm_options
    try:
        broker.start(wait=False)
        with pytest.raises(BrokerError, match=r"kafkapy ended with 1"):
            broker.wait_ready(20)
        return broker.log_tail(1)
    finally:
        broker.close()


def test_a_broker_that_is_refused_says_why_in_one_sentence(keeper: SecuredZooKeeper, tmp_path: Path) -> None:
    said = _refusal(keeper, {}, keeper.jvm_options("wrong-secret"))
    assert "it does not accept the user and password of section Client of" in said
    assert "KAFKA_OPTS" in said
    assert "wrong-secret" not in said.replace("client-wrong-secret.jaas", "")
    assert "name in KAFKA_OPTS a JAAS file with the section Client" in _refusal(keeper, {}, [])
    assert "/nowhere (java.security.auth.login.config of KAFKA_OPTS) can't be read: No such file" in _refusal(
        keeper, {}, [f"{JAAS_FILE}/nowhere"]
    )
    other = tmp_path / "other.pem"
    other.write_text(Authority("other", 1_700_000_000_000).certificate)
    untrusted = {"zookeeper.connection.timeout.ms": UNTRUSTED_MS}
    said = _refusal(keeper, {**untrusted, "zookeeper.ssl.truststore.location": str(other)})
    assert f"within {UNTRUSTED_MS} ms" in said
    assert "TLS failed: unable to get local issuer certificate): is it running, and are zookeeper.connect and" in said
    said = _refusal(keeper, {**untrusted, "zookeeper.ssl.keystore.location": ""})
    assert "TLS failed: " in said
    assert "zookeeper.ssl.truststore.location: '/nowhere' can't be read: No such file" in _refusal(
        keeper, {"zookeeper.ssl.truststore.location": "/nowhere"}
    )


def test_an_original_client_uses_the_settings_of_a_broker(
    keeper: SecuredZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", " ".join(keeper.jvm_options()))
    settings = keeper.broker_settings()
    del settings["zookeeper.set.acl"]
    properties = Properties(settings)
    registry = KazooRegistry(ZooKeeperConnectSettings.read(properties))
    try:
        properties.end()
        registry.ensure("/original/consumers")
        assert registry.children("/original") == ["consumers"]
    finally:
        registry.close()


def test_metadata_are_exported_to_a_secured_zookeeper_and_imported_again(
    keeper: SecuredZooKeeper, tmp_path: Path
) -> None:
    single = SecuredKafkapy(keeper, 1, SETTINGS)
    for key in [key for key in single.overrides if key.startswith("zookeeper.")]:
        del single.overrides[key]
    with single:
        admin = AdminClient({"bootstrap.servers": single.bootstrap, "log_level": 0})
        (created,) = admin.create_topics([NewTopic("t", 1, 1)]).values()
        created.result(WAIT_S)
        with ClusterClient(single.bootstrap) as client:
            set_password(client, "alice", "alice-secret", ["SCRAM-SHA-256"])
        single.stop()
        settings = keeper.broker_settings("/exported")
        config = write_properties(tmp_path / "server.properties", {"log.dirs": str(single.data), **settings})
        place = ["--config", str(config), "--zookeeper", settings["zookeeper.connect"]]
        for words in (["export"], ["import", "--dry-run"]):
            command = [*kafkapy_command(), "metadata", *words, *place]
            subprocess.run(command, env=single.environment(), check=True, capture_output=True, timeout=60)
        wrong = {**single.environment(), "KAFKA_OPTS": " ".join(keeper.jvm_options("wrong"))}
        refused = subprocess.run(
            [*kafkapy_command(), "metadata", "import", *place], env=wrong, check=False, capture_output=True, timeout=60
        )
        assert refused.returncode == 1
        said = refused.stderr.decode()
        assert "/exported refuses (it does not accept the user and password of section Client of" in said
        assert len(said.splitlines()) == 1
    with keeper.tree("/exported") as tree:
        found = access_lists(tree)
    owners = [(31, "sasl", "kafka"), (31, "x509", "CN=broker")]
    assert found["/brokers/topics/t"] == found["/"] == [(1, "world", "anyone"), *owners]
    assert found["/config/users/alice"] == found["/config/users"] == owners
