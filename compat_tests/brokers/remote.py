"""A broker that was started elsewhere, given as `host:port`."""

from pathlib import Path

from harness.process import answers_api_versions


class RemoteBroker:
    """Only an address: its process and files are out of reach."""

    pid: int | None = None
    data: Path | None = None

    def __init__(self, address: str) -> None:
        self.name = address
        self.bootstrap = address
        self.host, _, port = address.rpartition(":")
        self.port = int(port)

    def why_gone(self) -> str:
        """The reason why the broker serves no more; "" while it serves."""
        return "" if answers_api_versions(self.port, self.host) else f"{self.name} no longer answers"
