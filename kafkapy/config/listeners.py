"""Listeners: the addresses that a broker binds and the ones that it tells its clients."""

import re
from typing import Final, NamedTuple

from kafkapy.config.errors import InvalidConfigError, invalid_value
from kafkapy.config.keys import BLANKS

PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_HOST: Final = re.compile(r"[0-9a-zA-Z\-%._:]*")
_COUNT: Final = re.compile(r"[+-]?[0-9]+")
_INT32: Final = range(-(2**31), 2**31)
_ENDPOINT: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)", re.ASCII)


class EndPoint(NamedTuple):
    """One listener. An empty host means every interface (``listeners``) or this machine's name (advertised)."""

    listener_name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """``listener.security.protocol.map``: listener name → security protocol; raises InvalidConfigError."""
    protocols = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = item.rpartition(":")
        if not colon or protocol.strip().upper() not in SECURITY_PROTOCOLS:
            allowed = f"each item must be NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}"
            raise invalid_value("listener.security.protocol.map", text, allowed)
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_counts(key: str, text: str) -> dict[str, int]:
    """``max.connections.per.ip.overrides`` (``key``): address → number; raises InvalidConfigError."""
    counts = {}
    items = re.split(r"\s*,\s*", text, flags=re.ASCII)
    while items and not items[-1]:
        items.pop()
    for item in items:
        address, colon, count = (part.strip(BLANKS) for part in item.rpartition(":"))
        if not colon or not _HOST.fullmatch(address) or not _COUNT.fullmatch(count) or int(count) not in _INT32:
            raise invalid_value(key, text, "each item must be ADDRESS:NUMBER")
        counts[address] = int(count)
    return counts


def parse_listeners(key: str, text: str, protocols: dict[str, str]) -> tuple[EndPoint, ...]:
    """The end points of ``listeners`` or ``advertised.listeners`` (``key``); raises InvalidConfigError.

    As in Apache Kafka each name, and each port but 0, may occur once.
    """
    endpoints = tuple(_endpoint(key, item, protocols) for item in re.split(r"\s*,\s*", text.strip()) if item)
    names = [endpoint.listener_name for endpoint in endpoints]
    ports = [endpoint.port for endpoint in endpoints if endpoint.port != 0]
    if len(set(names)) != len(names):
        raise invalid_value(key, text, "two listeners have the same name")
    if key == "listeners" and len(set(ports)) != len(ports):
        raise invalid_value(key, text, "two listeners have the same port")
    return endpoints


def _endpoint(key: str, text: str, protocols: dict[str, str]) -> EndPoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise invalid_value(key, text, "must look like PLAINTEXT://127.0.0.1:9092")
    name, port = match[1].upper(), int(match[3])
    if name not in protocols:
        raise InvalidConfigError(f"{key} names the listener {name}, which listener.security.protocol.map lacks")
    if not 0 <= port < 65536:
        raise invalid_value(key, text, "the port must be between 0 and 65535")
    return EndPoint(name, protocols[name], match[2], port)
