"""Listeners are read as Kafka reads them."""

import pytest

from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.listeners import EndPoint, parse_counts, parse_listeners, parse_protocol_map

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "OUTSIDE": "SASL_SSL"}


def test_a_protocol_map_names_a_protocol_for_each_listener() -> None:
    assert parse_protocol_map("plaintext:Plaintext , OUTSIDE:SASL_SSL,") == PROTOCOLS


@pytest.mark.parametrize("text", ["A", "A:TLS", ":"])
def test_a_protocol_map_with_an_unknown_protocol_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="must be NAME:PROTOCOL"):
        parse_protocol_map(text)


def test_end_points_have_name_protocol_host_and_port() -> None:
    endpoints = parse_listeners("listeners", "PLAINTEXT://127.0.0.1:9092, outside://[::1]:0,", PROTOCOLS)
    assert endpoints == (
        EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),
        EndPoint("OUTSIDE", "SASL_SSL", "::1", 0),
    )
    assert [str(endpoint) for endpoint in endpoints] == ["PLAINTEXT://127.0.0.1:9092", "OUTSIDE://[::1]:0"]


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        (",", {}),
        ("a:1 , b : +2 ,,", {"a": 1, "b": 2}),
        ("::1:5,:3,h:-1", {"::1": 5, "": 3, "h": -1}),
        ("a:1,a:2", {"a": 2}),
    ],
)
def test_connection_counts_are_parsed_by_address(text: str, counts: dict[str, int]) -> None:
    """As Apache Kafka 2.7.2 reads ``max.connections.per.ip.overrides``; it refuses those of the next test."""
    assert parse_counts("key", text) == counts


@pytest.mark.parametrize("text", ["a", "a:", "a:x", "a:1,,b:2", ",a:1", "a b:1", "a/:1", "a:2147483648", "a:1.0"])
def test_a_connection_count_without_address_or_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="each item must be ADDRESS:NUMBER"):
        parse_counts("key", text)


def test_an_empty_host_stays_empty() -> None:
    assert parse_listeners("listeners", "PLAINTEXT://:9092", PROTOCOLS)[0].host == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("127.0.0.1:9092", "must look like PLAINTEXT://127.0.0.1:9092"),
        ("PLAINTEXT://host", "must look like"),
        ("PLAINTEXT://host:port", "must look like"),
        ("INSIDE://:9092", "names the listener INSIDE, which listener.security.protocol.map lacks"),
        ("PLAINTEXT://:65536", "must be between 0 and 65535"),
        ("PLAINTEXT://:-1", "must be between 0 and 65535"),
        ("PLAINTEXT://:1,PLAINTEXT://:2", "have the same name"),
        ("PLAINTEXT://:1,OUTSIDE://:1", "have the same port"),
    ],
)
def test_bad_listeners_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=problem):
        parse_listeners("listeners", text, PROTOCOLS)


def test_advertised_listeners_may_share_a_port_and_listeners_port_zero() -> None:
    assert len(parse_listeners("advertised.listeners", "PLAINTEXT://a:1,OUTSIDE://b:1", PROTOCOLS)) == 2
    assert len(parse_listeners("listeners", "PLAINTEXT://:0,OUTSIDE://:0", PROTOCOLS)) == 2
