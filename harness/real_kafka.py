"""Apache Kafka from its Maven jars, as a child process: 2.x beside its ZooKeeper, 3.x and 4.x as one KRaft node."""

import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from harness.jars import class_path
from harness.java import find_java
from harness.java_programs import QUICK_START, class_archive
from harness.process import HOST, ChildProcess, free_port
from harness.wire import Wire
from kafkapy.protocol.messages.metadata import MetadataRequest

CLUSTER_ID = "a2Fma2FweS1jb21wYXQtMQ"
AS_IN_PRODUCTION = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
"""What Kafka's own start script gives its JVM."""
ONE_BROKER = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "delete.topic.enable": "true",
    "controlled.shutdown.enable": "false",
}
LOG4J = """log4j.rootLogger={level}, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{{ISO8601}} %p %c %m%n
log4j.logger.kafka.request.logger={request_level}
"""


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    """Writes a `.properties` file; returns its path."""
    escaped = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in properties.items()}
    path.write_text("".join(f"{key}={value}\n" for key, value in escaped.items()))
    return path


def _has_controller(bootstrap: str) -> bool:
    """Whether the cluster's metadata name a controller and a broker."""
    try:
        with Wire(bootstrap) as wire:
            found = wire.ask(MetadataRequest(topics=[]), 1)
    except (OSError, AssertionError):
        return False
    return found.controller_id >= 0 and len(found.brokers) > 0


class ZooKeeper(ChildProcess):
    """One ZooKeeper server from the jars of a Kafka that still has one; several brokers can share it.

    `config` overrides single settings.
    """

    def __init__(
        self, version: str = "2.7.2", directory: Path | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        super().__init__("zookeeper", directory)
        self.version = version
        self._config = dict(config or {})

    def command(self) -> list[str]:
        properties = {
            "dataDir": str(self.directory / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": self.host,
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "*",
            "tickTime": "1000",
            **self._config,
        }
        config = write_properties(self.directory / "zookeeper.properties", properties)
        logging = write_properties(self.directory / "log4j.properties", {})
        logging.write_text(LOG4J.format(level="WARN", request_level="OFF"))
        options = ["-Xmx256M", *QUICK_START, "-Dzookeeper.forceSync=no", f"-Dlog4j.configuration=file:{logging}"]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [*find_java().command, *options, "-cp", class_path(self.version), main, str(config)]

    def close(self) -> None:
        self.kill()
        super().close()

    def is_ready(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=2) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False


class RealKafka(ChildProcess):
    """One Apache Kafka broker of `version`, with its own ZooKeeper (2.x) unless one is handed in.

    `config` overrides single settings; `request_log` DEBUG or TRACE writes every request, decoded, into the log;
    `heap` is what the JVM gets (its minimum and maximum), `jvm` are its other options, those for a quick start unless
    given. `close` doesn't wait for a clean shutdown, which takes Kafka seconds: call `stop` first for one.
    """

    def __init__(
        self,
        version: str,
        *,
        config: Mapping[str, str] | None = None,
        directory: Path | None = None,
        heap: str = "512M",
        jvm: Sequence[str] | None = None,
        request_log: str | None = None,
        zookeeper: ZooKeeper | None = None,
        broker_id: int = 0,
    ) -> None:
        super().__init__(f"kafka-{version}", directory, config)
        self.version = version
        self.heap = heap
        self.jvm = jvm
        self.request_log = request_log
        self.broker_id = broker_id
        self.data = self.directory / "data"
        self.has_zookeeper = version.startswith("2.")
        self.zookeeper = zookeeper
        self._own_zookeeper = zookeeper is None and self.has_zookeeper
        self._controller_port = free_port()

    @property
    def controller_listener(self) -> str:
        """The listener of a KRaft node's controller."""
        return f"CONTROLLER://{HOST}:{self._controller_port}"

    def properties(self) -> dict[str, str]:
        """The whole server.properties."""
        listener = f"PLAINTEXT://{self.bootstrap}"
        common = {"log.dirs": str(self.data), **ONE_BROKER}
        if self.has_zookeeper:
            assert self.zookeeper is not None
            mode = {
                "broker.id": str(self.broker_id),
                "listeners": listener,
                "zookeeper.connect": self.zookeeper.bootstrap,
                "zookeeper.session.timeout.ms": "6000",
            }
        else:
            node = self.broker_id + 1
            mode = {
                "process.roles": "broker,controller",
                "node.id": str(node),
                "listeners": f"{listener},{self.controller_listener}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"{node}@{HOST}:{self._controller_port}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "share.coordinator.state.topic.replication.factor": "1",
                "share.coordinator.state.topic.min.isr": "1",
            }
        return {**common, **mode, **self.overrides}

    def command(self) -> list[str]:
        config = write_properties(self.directory / "server.properties", self.properties())
        java = [*find_java().command, f"-Xmx{self.heap}", f"-Xms{self.heap}", *self._jvm(), *self._logging()]
        return [*java, "-cp", class_path(self.version), "kafka.Kafka", str(config)]

    def is_ready(self) -> bool:
        """It answers some time before it knows of a controller and of itself."""
        return super().is_ready() and _has_controller(self.bootstrap)

    def _jvm(self) -> list[str]:
        if self.jvm is not None:
            return list(self.jvm)
        archive = class_archive(self.version)
        return [*QUICK_START, *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else ())]

    def _logging(self) -> list[str]:
        request_level = self.request_log or "WARN"
        config = self.directory / "log4j.properties"
        config.write_text(LOG4J.format(level="WARN", request_level=request_level))
        simple = "-Dorg.slf4j.simpleLogger"
        return [
            f"-Dlog4j.configuration=file:{config}",
            f"{simple}.defaultLogLevel=warn",
            f"{simple}.log.kafka.request.logger={request_level.lower()}",
        ]

    def start(self, *, wait: bool = True) -> Self:
        if self.has_zookeeper:
            if self.zookeeper is None:
                self.zookeeper = ZooKeeper(self.version, self.directory / "zookeeper")
            if self._own_zookeeper and self.zookeeper.pid is None:
                self.zookeeper.start()
        else:
            self._format()
        super().start(wait=wait)
        return self

    def _format(self) -> None:
        """Writes the KRaft node's meta.properties, once."""
        if (self.data / "meta.properties").exists():
            return
        config = write_properties(self.directory / "server.properties", self.properties())
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
        command = [
            *find_java().command,
            "-Xmx128M",
            *QUICK_START,
            *self._logging(),
            "-cp",
            class_path(self.version),
            *tool,
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def why_gone(self) -> str:
        return super().why_gone() or (self.zookeeper.why_gone() if self.zookeeper is not None else "")

    def close(self) -> None:
        self.kill()
        if self._own_zookeeper and self.zookeeper is not None:
            self.zookeeper.close()
        super().close()
