"""A cluster by its bootstrap addresses; temporary errors are retried."""

import socket
from typing import Any

import pytest

from kafkapy.clients import cluster
from kafkapy.clients.cluster import ClusterClient, parse_bootstrap
from kafkapy.clients.errors import ClientError, NoBrokerError, RequestFailedError
from kafkapy.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic


def test_bootstrap_addresses() -> None:
    assert parse_bootstrap("a:1, [::1]:2,") == [("a", 1), ("::1", 2)]
    for text in ("", "a", "a:b", ":1", "a:"):
        with pytest.raises(ClientError, match="write host:port"):
            parse_bootstrap(text)
    assert parse_bootstrap("a:65535") == [("a", 65535)]
    for text in ("a:99999", "a:0", "a:1,b:65536"):
        with pytest.raises(ClientError, match="ports are numbers from 1 to 65535"):
            parse_bootstrap(text)


def test_the_first_address_that_answers_is_taken(bootstrap: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dead = server.getsockname()[1]
    with ClusterClient(f"127.0.0.1:{dead},{bootstrap}") as client:
        assert client.node_ids() == [0]
        assert client.controller() is client.node(0)


def test_an_address_that_is_silent_does_not_hide_the_next_one(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "SILENT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        with ClusterClient(f"127.0.0.1:{silent.getsockname()[1]},{bootstrap}") as client:
            assert client.node_ids() == [0]
            silent.accept()[0].close()
            with client.with_timeout(5.0) as other:
                assert other.node_ids() == [0]
            with pytest.raises(BlockingIOError):
                silent.accept()


def test_the_error_names_each_address_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dead = server.getsockname()[1]
    with ClusterClient(f"127.0.0.1:{dead}") as client, pytest.raises(NoBrokerError, match=f"no broker answers.*{dead}"):
        client.metadata()


def test_an_unknown_broker_id_is_an_error(client: ClusterClient) -> None:
    with pytest.raises(NoBrokerError, match="broker 7 is not in the cluster"):
        client.node(7)


def test_the_client_waits_for_a_new_topics_leaders(client: ClusterClient) -> None:
    topic = client.topic("made-by-metadata", create=True)
    assert [partition.leader_id for partition in topic.partitions] == [0]
    with pytest.raises(RequestFailedError, match=r"topic nobody-made-it does not exist \(UNKNOWN_TOPIC_OR_PARTITION\)"):
        client.topic("nobody-made-it")


def test_the_client_waits_for_a_topic_that_is_still_being_created(
    client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = MetadataResponse(topics=[MetadataResponseTopic(error_code=3, name="late")])
    answers = [unknown, unknown]
    call = client.call

    def late(request: Any, response_class: Any) -> Any:
        return answers.pop() if answers else call(request, response_class)

    monkeypatch.setattr(cluster, "RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(client, "call", late)
    assert client.topic("late", create=True).name == "late"
    answers[:] = [unknown]
    with pytest.raises(RequestFailedError, match=r"topic late does not exist \(UNKNOWN_TOPIC_OR_PARTITION\)"):
        client.topic("late")


def test_the_client_waits_for_a_coordinator(client: ClusterClient) -> None:
    assert client.coordinator("some-group") is client.node(0)


def test_only_temporary_errors_are_retried(client: ClusterClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "RETRY_PAUSE_S", 0.0)
    codes = [15, 14, 6, 0]

    def attempt() -> str:
        code = codes.pop(0)
        if code:
            raise RequestFailedError(code)
        return "done"

    assert client.retrying(attempt) == "done"
    codes[:] = [36, 0]
    with pytest.raises(RequestFailedError, match="TOPIC_ALREADY_EXISTS"):
        client.retrying(attempt)
    codes[:] = [36, 0]
    assert client.retrying(attempt, also=frozenset({36})) == "done"
    monkeypatch.setattr(cluster, "RETRIES", 2)
    codes[:] = [15, 15, 15]
    with pytest.raises(RequestFailedError, match="COORDINATOR_NOT_AVAILABLE"):
        client.retrying(attempt)
