"""ApiVersions: what is advertised, and who may ask."""

from pathlib import Path

import pytest

from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.server.handlers import REGISTRY
from tests.server.harness import Client, run, running_broker

FETCHING_AND_STORING = {0: (0, 8), 1: (0, 12), 8: (0, 8), 9: (0, 7)}
INSIDE_ONLY = {4, 5, 6}


@pytest.mark.parametrize("version", range(4))
def test_what_is_advertised_is_the_registry_less_what_is_inside_only(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            response = await client.ask(ApiVersionsRequest("test", "1.0"), version)
            ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
            assert ranges.keys() == {int(key) for key in REGISTRY} - INSIDE_ONLY
            assert ranges.items() >= FETCHING_AND_STORING.items()
            assert list(ranges) == sorted(ranges)

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
