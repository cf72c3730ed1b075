import asyncio

import pytest

from kafkapy.clock import SystemClock
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import NoNodeError, StoreError, ensure_path, set_or_create


def test_errors_name_the_path() -> None:
    error = NoNodeError("/brokers/ids/1")
    assert isinstance(error, StoreError)
    assert error.path == str(error) == "/brokers/ids/1"


@pytest.mark.parametrize("helper", [ensure_path, set_or_create])
def test_helpers_make_a_node_with_its_parents(helper: object) -> None:
    async def main() -> None:
        store = EmbeddedStore(None, SystemClock()).session()
        assert callable(helper)
        await helper(store, "/config/topics/t", b"{}")
        assert (await store.get("/config/topics/t")).data == b"{}"
        assert (await store.get("/config")).data is None

    asyncio.run(main())
