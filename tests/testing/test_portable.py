"""A broker without calls that only POSIX has: produce, fetch, restart and kill."""

import subprocess
import sys

import pytest

LACKS = {
    "sendfile": "del os.sendfile",
    "reads and writes at a position": "del os.pread, os.pwrite",
    "record locks": "sys.modules['fcntl'] = None",
    "the rest": "sys.modules['resource'] = None; sys.platform = 'other';"
    " del os.O_DIRECTORY, os.O_CLOEXEC, os.nice, os.sched_getaffinity, os.sched_setscheduler",
}
LACKS["all of it"] = "\n".join(LACKS.values())
USE = """
import asyncio, os, sys
{taken_away}
sys.path.insert(0, {root!r})
from harness.client import Client, values_of
from kafkapy.protocol.messages.fetch import FetchRequest
from kafkapy.testing import Broker

VALUES = [bytes([at]) * 30_000 for at in range(40)]

async def fetched(port):
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    answer = (await client.fetch("t", partition_max_bytes=1 << 22)).responses[0].partitions[0]
    await client.close()
    return values_of(answer.records)

with Broker({{"log.segment.bytes": 2_000_000}}, topics=["t"]) as broker:
    for again in (broker.restart, lambda: (broker.kill(), broker.start()), broker.restart):
        for value in VALUES:
            broker.produce("t", value)
        again()
        assert asyncio.run(fetched(broker.port))[:40] == VALUES
    assert len(broker.records("t")) == 120
    data = broker.data
assert not data.exists()
print("fine")
"""


@pytest.mark.parametrize("lack", LACKS)
def test_a_broker_works_without_a_posix_call(lack: str, pytestconfig: pytest.Config) -> None:
    program = USE.format(taken_away=LACKS[lack], root=str(pytestconfig.rootpath))
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert shown.stdout == "fine\n", shown.stderr
