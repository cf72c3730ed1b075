"""``kafkapy.api.release``: listeners serve the keys and versions of one release of Apache Kafka, and no others."""

import struct
from pathlib import Path

import pytest

from harness.client import Client, frame
from kafkapy.config.own_keys import API_RELEASES
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkapy.server.dispatch.releases import SERVED
from kafkapy.server.handlers import ALL_APIS, REGISTRY
from tests.server.harness import run, running_broker

TWO_LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,INNER://127.0.0.1:0",
    "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
    "inter__broker__listener__name": "INNER",
}


async def _listed(client: Client) -> dict[int, tuple[int, int]]:
    response = await client.ask(ApiVersionsRequest(), 0)
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


@pytest.mark.parametrize("release", API_RELEASES)
def test_clients_see_a_release_as_far_as_it_is_built(release: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, kafkapy__api__release=release) as broker:
            listed = await _listed(await Client.connect(broker))
            for key, versions in listed.items():
                low, high = SERVED[key][API_RELEASES.index(release)] or (None, -1)
                assert versions == (low, min(high, REGISTRY[ApiKey(key)].max_version))
            assert listed[ApiKey.FETCH][0] == (4 if release == "4.4" else 0)

    run(scenario())


def test_a_version_that_the_release_has_dropped_ends_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, kafkapy__api__release="4.4") as broker:
            client = await Client.connect(broker)
            client.send(struct.pack(">ihhihb", 11, ApiKey.API_VERSIONS, 99, 1, -1, 0))
            answer = Client.decode(ApiKey.API_VERSIONS, 0, await client.receive())
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert [api.api_key for api in answer.api_keys] == [ApiKey.API_VERSIONS]
            assert (await client.ask(MetadataRequest(topics=[]), 1)).brokers
            client.send(frame(OffsetFetchRequest("group", []), 0))
            assert await client.is_closed()

    run(scenario())


def test_a_listener_for_brokers_keeps_what_brokers_send(tmp_path: Path) -> None:
    async def scenario() -> None:
        keys = {"kafkapy__api__release": "4.4", **TWO_LISTENERS}
        async with running_broker(tmp_path, serves_brokers=True, **keys) as broker:
            inner = await _listed(await Client.connect(broker, listener=1))
            assert {int(api.key) for api in ALL_APIS if api.between_brokers} <= inner.keys()
            assert {low for low, _ in inner.values()} == {0}
            assert (await _listed(await Client.connect(broker)))[ApiKey.FETCH][0] == 4

    run(scenario())
