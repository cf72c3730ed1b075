"""A broker that somebody else started, given as `host:port`."""

from pathlib import Path


class RemoteBroker:
    """Only an address: its process and files are out of reach."""

    pid: int | None = None
    data: Path | None = None

    def __init__(self, address: str) -> None:
        self.name = address
        self.bootstrap = address
        self.port = int(address.rpartition(":")[2])
