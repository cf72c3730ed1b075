"""A ZooKeeper whose clients have to prove who they are, by a password (SASL) or a certificate (TLS), and brokers."""

import base64
import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from harness.java_programs import QUICK_START
from harness.kafkapy_process import KafkapyProcess
from harness.process import HOST, free_port
from harness.real_kafka import RealKafka, ZooKeeper
from kafkapy.security.certificates import LOCAL_HOSTS, Authority

USER, PASSWORD = "kafka", "kafka-secret"
SUPER_USER = "super:super-secret"
JAAS_FILE = "-Djava.security.auth.login.config="
NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"
_SERVER_JAAS = """Server {{
    org.apache.zookeeper.server.auth.DigestLoginModule required user_{user}="{password}";
}};
"""
_CLIENT_JAAS = """KafkaServer {{
    org.apache.kafka.common.security.plain.PlainLoginModule required username="unused" password="unused";
}};
Client {{
    org.apache.zookeeper.server.auth.DigestLoginModule required
        username="{user}" password="{password}"; // the broker's
}};
"""


class SecuredZooKeeper(ZooKeeper):
    """A server with a port for TLS beside the other one (`has_tls`), which refuses sessions without SASL (`has_sasl`).

    A client over TLS has to show a certificate of `authority`. The super user may read every node.
    """

    def __init__(self, *, has_tls: bool = False, has_sasl: bool = False, version: str = "2.7.2") -> None:
        super().__init__(version)
        self.has_tls, self.has_sasl = has_tls, has_sasl
        self.secure_port = free_port()
        self.authority = Authority("authority", time.time_ns() // 1_000_000)
        self._config = {**self._tls_settings(), **self._sasl_settings()}

    def command(self) -> list[str]:
        java, *rest = super().command()
        user, _, _ = SUPER_USER.partition(":")
        digest = base64.b64encode(hashlib.sha1(SUPER_USER.encode()).digest()).decode()
        options = [f"-Dzookeeper.DigestAuthenticationProvider.superDigest={user}:{digest}"]
        if self.has_sasl:
            options.append(f"{JAAS_FILE}{self.directory / 'server.jaas'}")
        return [java, *options, *rest]

    def _sasl_settings(self) -> dict[str, str]:
        if not self.has_sasl:
            return {}
        (self.directory / "server.jaas").write_text(_SERVER_JAAS.format(user=USER, password=PASSWORD))
        provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        return {"authProvider.1": provider, "sessionRequireClientSASLAuth": "true"}

    def _tls_settings(self) -> dict[str, str]:
        if not self.has_tls:
            return {}
        return {
            "secureClientPort": str(self.secure_port),
            "secureClientPortAddress": self.host,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            "ssl.keyStore.location": str(self.key_store("zookeeper")),
            "ssl.trustStore.location": str(self.trust_store()),
        }

    def key_store(self, name: str, authority: Authority | None = None) -> Path:
        """A file with a key and its certificate for this name, and for this machine's."""
        issued = (authority or self.authority).issue(name, LOCAL_HOSTS)
        path = self.directory / f"{name}.pem"
        path.write_text(issued.key + issued.certificate)
        return path

    def trust_store(self) -> Path:
        """The file with the authority's certificate."""
        path = self.directory / "authority.pem"
        path.write_text(self.authority.certificate)
        return path

    def broker_settings(self, chroot: str = "") -> dict[str, str]:
        """The keys of a broker whose tree is below the chroot; all show certificates with the same name."""
        port = self.secure_port if self.has_tls else self.port
        settings = {"zookeeper.connect": f"{HOST}:{port}{chroot}", "zookeeper.set.acl": "true"}
        if self.has_tls:
            settings |= {
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.clientCnxnSocket": NETTY,
                "zookeeper.ssl.keystore.location": str(self.key_store("broker")),
                "zookeeper.ssl.truststore.location": str(self.trust_store()),
            }
        return settings

    def jvm_options(self, password: str = PASSWORD) -> list[str]:
        """The options that tell a broker of its name and password."""
        if not self.has_sasl:
            return []
        path = self.directory / f"client-{password}.jaas"
        path.write_text(_CLIENT_JAAS.format(user=USER, password=password))
        return [f"{JAAS_FILE}{path}"]

    @contextmanager
    def tree(self, chroot: str = "") -> Iterator[Any]:
        """A client that may read and change everything below the chroot."""
        login = {"mechanism": "DIGEST-MD5", "username": USER, "password": PASSWORD} if self.has_sasl else None
        client = KazooClient(self.bootstrap + chroot, sasl_options=login, auth_data=[("digest", SUPER_USER)])
        client.start()
        try:
            yield client
        finally:
            client.stop()
            client.close()


def access_lists(tree: Any, path: str = "/") -> dict[str, list[tuple[int, str, str]]]:
    """Path → permissions, scheme and id of each entry, of this node and all below it."""
    entries, _ = tree.get_acls(path)
    found = {path: sorted((entry.perms, entry.id.scheme, entry.id.id) for entry in entries)}
    for name in tree.get_children(path):
        found |= access_lists(tree, f"{path.rstrip('/')}/{name}")
    return found


def apache_broker(zookeeper: SecuredZooKeeper, broker_id: int, config: Mapping[str, str]) -> RealKafka:
    """A broker of Apache Kafka 2.7.2, not started."""
    settings = {**zookeeper.broker_settings(), **config}
    jvm = [*QUICK_START, *zookeeper.jvm_options()]
    return RealKafka("2.7.2", zookeeper=zookeeper, broker_id=broker_id, config=settings, jvm=jvm, heap="256M")


class SecuredKafkapy(KafkapyProcess):
    """A broker of kafkapy on a secured ZooKeeper, not started."""

    def __init__(self, zookeeper: SecuredZooKeeper, broker_id: int, config: Mapping[str, str]) -> None:
        settings = {"broker.id": str(broker_id), **zookeeper.broker_settings(), **config}
        super().__init__(config=settings)
        self.jvm_options = zookeeper.jvm_options()

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "KAFKA_OPTS": " ".join(self.jvm_options)}
