"""ApiVersions: the advertised APIs, and the check of client software names."""

from pathlib import Path

import pytest

from harness.client import Client
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.server.handlers import REGISTRY
from tests.server.harness import run, running_broker

FETCHING_AND_STORING = {0: (0, 13), 1: (0, 18), 8: (0, 10), 9: (0, 10)}
BETWEEN_BROKERS = {4, 5, 6, 7, 56}
TWO_LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,INNER://127.0.0.1:0",
    "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
    "inter__broker__listener__name": "INNER",
}


@pytest.mark.parametrize("version", range(6))
def test_clients_see_the_registry_without_the_apis_between_brokers(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            response = await client.ask(ApiVersionsRequest("test", "1.0"), version)
            ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
            assert ranges.keys() == {int(key) for key in REGISTRY} - BETWEEN_BROKERS
            assert ranges.items() >= FETCHING_AND_STORING.items()
            assert list(ranges) == sorted(ranges)

    run(scenario())


async def _advertised(client: Client) -> set[int]:
    response = await client.ask(ApiVersionsRequest(), 0)
    return {api.api_key for api in response.api_keys}


def test_only_the_inter_broker_listener_advertises_all_apis(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, serves_brokers=True, **TWO_LISTENERS) as broker:
            everything = {int(key) for key in REGISTRY}
            assert await _advertised(await Client.connect(broker, listener=1)) == everything
            assert await _advertised(await Client.connect(broker)) == everything - BETWEEN_BROKERS

    run(scenario())


def test_a_broker_without_peers_advertises_no_apis_between_brokers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, **TWO_LISTENERS) as broker:
            for listener in (0, 1):
                assert not await _advertised(await Client.connect(broker, listener)) & BETWEEN_BROKERS

    run(scenario())


@pytest.mark.parametrize(("name", "software", "code"), [
    ("apache-kafka-java", "2.7.2", 0), ("", "1", 42), ("-x", "1", 42), ("a b", "1", 42), ("ok", "1.", 42),
])  # fmt: skip
def test_client_software_names_are_checked(name: str, software: str, code: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            response = await client.ask(ApiVersionsRequest(name, software), 3)
            assert (response.error_code, bool(response.api_keys)) == (code, code == 0)
            assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0

    run(scenario())


def test_a_client_may_name_the_broker_that_it_expects(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, own = await Client.connect(broker), broker.services.metadata.image.cluster_id

            async def asked(cluster_id: str | None, node_id: int) -> int:
                response = await client.ask(ApiVersionsRequest("a", "1", cluster_id, node_id), 5)
                return int(response.error_code)

            assert [await asked(None, -1), await asked(own, 0)] == [0, 0]
            assert [await asked(own, 7), await asked("another", 0)] == [129, 129]
            assert [await asked(None, 7), await asked("another", -1), await asked("", 0)] == [42, 42, 42]

    run(scenario())
