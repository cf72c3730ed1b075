"""A Kafka broker in a container, through the `testcontainers` package, where a Docker engine answers."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.process import HOST, BrokerError, answers_api_versions, free_port, wait_for
from harness.real_kafka import ONE_BROKER

IMAGE = r"[\w.-]+(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?"
INSIDE = 9092
READY_TIMEOUT_S = 120.0
CLUSTER_ID = "a2Fma2FweS1jb21wYXQtMQ"


def why_no_engine() -> str:
    """The reason why no container can be started here, on one line; "" if one can."""
    try:
        import docker
        import testcontainers.core.container  # noqa: F401  (checks that it is installed)
    except ModuleNotFoundError as missing:
        return f"the package {missing.name} is not installed (pip install testcontainers)"
    try:
        docker.from_env(timeout=10).ping()
    except docker.errors.DockerException as error:
        return f"no Docker engine answers ({str(error).splitlines()[0][:150]})"
    return ""


def environment(port: int) -> dict[str, str]:
    """The settings of one KRaft node for the images of Apache Kafka and of Confluent, reached at `port`."""
    settings = {
        **ONE_BROKER,
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://0.0.0.0:{INSIDE},CONTROLLER://127.0.0.1:9093",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    named = {"KAFKA_" + key.upper().replace(".", "_"): value for key, value in settings.items()}
    return {"CLUSTER_ID": CLUSTER_ID, **named}


class Container:
    """One broker of an image, started on entry and removed with its data on exit."""

    pid: int | None = None
    data: Path | None = None

    def __init__(self, image: str) -> None:
        self.name = f"testcontainers:{image}"
        self.image = image
        self.port = free_port()
        self.bootstrap = f"{HOST}:{self.port}"
        self._container: Any = None

    def why_gone(self) -> str:
        """The reason why the broker serves no more; "" while it serves."""
        return "" if answers_api_versions(self.port) else f"{self.name} no longer answers"

    def __enter__(self) -> Self:
        from testcontainers.core.container import DockerContainer

        self._container = DockerContainer(self.image).with_bind_ports(INSIDE, self.port)
        for name, value in environment(self.port).items():
            self._container.with_env(name, value)
        try:
            self._container.start()
            self._wait_ready()
        except BaseException:
            self._end()
            raise
        return self

    def _wait_ready(self) -> None:
        if not wait_for(lambda: answers_api_versions(self.port), READY_TIMEOUT_S):
            raise BrokerError(f"{self.name} did not answer within {READY_TIMEOUT_S:.0f} s:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        out, err = self._container.get_logs()
        return "\n".join((out + err).decode(errors="replace").splitlines()[-40:])

    def _end(self) -> None:
        container, self._container = self._container, None
        container.stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
