"""The commands of the pages run as they are printed, each section in a directory and a network of its own.

A command that starts a broker in the foreground has a terminal of its own, as the reader gives it one; the next command
waits until the broker answers. Where a page says that the broker of an earlier block is stopped first, it is.
Sections that need other hosts (``zoo``, ``east``, ``broker.example``) are not here: their commands have tests of their
own, with real servers. docs/growing.md, docs/faults.md's programs and docs/testing.md have theirs, too.
"""

import re
from pathlib import Path

import pytest

from compat_tests.cluster.page import BLOCK, COMMAND, Shell
from compat_tests.kafkapy_process import ROOT

STARTS = re.compile(r"^kafkapy (cluster )?start\b")
INSTALLS = "pip install ."
"""What the suite runs in is installed already."""
ANSWERS = "until kafkapy brokers >/dev/null 2>&1; do sleep 0.2; done"
CONTROLLED = "until curl -sf http://127.0.0.1:9393/ >/dev/null; do sleep 0.2; done"
STOP = "kill $(jobs -p); wait"

BROKER = "kafkapy start --data ./data"
ORDERS = "kafkapy topics create orders"
FILL = "seq 200 | kafkapy produce flights"
GROUP = "kafkapy groups reset-offsets billing --topic flights --to earliest"
OPEN = """python - <<'END'
from kafkapy.clients import transactions
from kafkapy.clients.cluster import ClusterClient
from kafkapy.protocol.messages.add_partitions_to_txn import *
with ClusterClient() as client:
    producer = transactions.abort(client, "etl-1", 60_000)
    request = AddPartitionsToTxnRequest([], "etl-1", *producer, [AddPartitionsToTxnTopic("orders", [0])])
    client.transaction_coordinator("etl-1").call(request, AddPartitionsToTxnResponse)
END"""
HANGING = """python - <<'END'
from kafkapy.clients.cluster import ClusterClient
from kafkapy.protocol.messages.produce import *
from kafkapy.records.record import Record, encode_batch
fields = dict(producer_id=77_000, producer_epoch=0, base_sequence=0, is_transactional=True)
batch = encode_batch([Record(b"k", b"late", 0)], **fields)
with ClusterClient() as client:
    data = [TopicProduceData("orders", partition_data=[PartitionProduceData(0, memoryview(batch))])]
    client.call(ProduceRequest("gone", -1, 10_000, data), ProduceResponse)
END"""
SECTIONS: dict[tuple[str, str], list[str]] = {
    ("README.md", "Thirty seconds"): [],
    ("docs/cluster.md", "Commands"): ["kafkapy cluster start", "kafkapy topics create flights --partitions 4"],
    ("docs/cluster.md", "A cluster in one process"): [],
    ("docs/faults.md", "The control port"): [],
    ("docs/operations.md", "Looking into the files"): [
        *(BROKER, "kafkapy topics create flights", FILL, GROUP, STOP),
    ],
    ("docs/operations.md", "Transactions"): [
        *(BROKER, ORDERS, "seq 1500 | kafkapy produce orders", OPEN, HANGING),
    ],
}
"""Page and heading, and what is there before the section begins."""


def blocks(page: str, heading: str) -> list[list[str]]:
    """The commands of each block of a section; a Python program is a command."""
    text = (ROOT / page).read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = []
    for _, language, content in BLOCK.findall(section):
        if language == "console":
            found.append(COMMAND.findall(content))
        elif language == "python":
            found.append([f"python - <<'END'\n{content}END"])
    return found


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("page", "heading"), SECTIONS, ids=lambda each: each.replace(" ", "-"))
def test_a_section_runs_as_printed(page: str, heading: str, tmp_path: Path) -> None:
    found = blocks(page, heading)
    assert [command for block in found for command in block], "the page has no such section, or no commands in it"
    with Shell(tmp_path) as shell:
        is_running = False

        def run(command: str) -> None:
            nonlocal is_running
            if command == INSTALLS:
                return
            if command == STOP or (STARTS.match(command) and is_running):
                shell.run(STOP)
                is_running = False
            if STARTS.match(command):
                shell.run(f"{command.partition(' #')[0].removesuffix('&')} &")
                shell.run(CONTROLLED if "--control-port" in command else ANSWERS)
                is_running = True
            elif command != STOP:
                shell.run(command)

        for command in [*SECTIONS[page, heading], *(command for block in found for command in block)]:
            run(command)
        if is_running:
            shell.run(STOP)
