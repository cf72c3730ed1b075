import pytest

from kafkapy.config.errors import InvalidConfigError
from kafkapy.metadata.zookeeper_address import ZooKeeperAddress


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [("h:1", "h:1", ""), ("h:1/", "h:1", ""), ("h:1,i:2/a/b", "h:1,i:2", "/a/b"), ("[::1]:1/a/", "[::1]:1", "/a")],
)
def test_addresses(text: str, servers: str, chroot: str) -> None:
    address = ZooKeeperAddress.parse(text)
    assert address == (servers, chroot)
    assert str(address) == servers + chroot


@pytest.mark.parametrize("text", ["", "h", "h:x", ":1", "h:1,", "h:1//a", "/a"])
def test_an_address_that_cannot_be_parsed_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="write host:port or host:port/chroot"):
        ZooKeeperAddress.parse(text)


def test_hosts_and_ports_of_the_servers() -> None:
    assert ZooKeeperAddress.parse("h:1, i:2,[::1]:3/a").hosts == [("h", 1), ("i", 2), ("::1", 3)]
