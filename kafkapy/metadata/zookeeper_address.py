"""Where a ZooKeeper is, as ``zookeeper.connect`` says it."""

from typing import NamedTuple

from kafkapy.config.errors import InvalidConfigError


class ZooKeeperAddress(NamedTuple):
    """Servers as ``host:port,host:port`` and the path below which the cluster lies, empty for the root."""

    servers: str
    chroot: str

    @classmethod
    def parse(cls, text: str) -> "ZooKeeperAddress":
        """``host:port[,host:port…][/chroot]``, as in ``zookeeper.connect``; raises InvalidConfigError."""
        servers, slash, chroot = text.partition("/")
        well_formed = all(
            host and port.isdecimal() for host, _, port in (each.rpartition(":") for each in servers.split(","))
        )
        if not well_formed or "//" in slash + chroot:
            raise InvalidConfigError(f"{text!r} is no address of a ZooKeeper: write host:port or host:port/chroot")
        return cls(servers, (slash + chroot).rstrip("/"))

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """Host and port of each server."""
        pairs = (each.rpartition(":") for each in self.servers.split(","))
        return [(host.strip().removeprefix("[").removesuffix("]"), int(port)) for host, _, port in pairs]

    def __str__(self) -> str:
        return self.servers + self.chroot
