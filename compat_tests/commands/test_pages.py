"""The commands of the pages run as they are printed, each section in a directory and a network of its own.

A command that starts a broker in the foreground has a terminal of its own, as the reader gives it one; the next command
waits until the broker answers. The brokers of an earlier block are stopped before those of the next one begin. A mirror
without end is ended by Ctrl-C after some seconds. The machines that pages name (``zoo``, ``east``, ``broker.example``)
are this one. docs/growing.md, docs/faults.md's programs and docs/testing.md have tests of their own.
"""

import re
import shutil
from pathlib import Path

import pytest

from compat_tests.cluster.page import BLOCK, Shell
from compat_tests.kafkapy_process import ROOT

STARTS = re.compile(r"^(kafkapy (cluster )?start|kafka-server-start.sh)\b")
STEP = re.compile(r"^(?:\$ (.*(?:\n    .*)*)|(… later, when Apache Kafka has stopped).*)$", re.MULTILINE)
ENDLESS = re.compile(r"^kafkapy mirror (?!.*--once)")
INSTALLS = "pip install ."
"""What the suite runs in is installed already."""
ANSWERS = "until kafkapy brokers >/dev/null 2>&1; do sleep 0.2; done"
CONTROLLED = "until curl -sf http://127.0.0.1:9393/ >/dev/null; do sleep 0.2; done"
STOP = "kill $(jobs -p); wait"
STOP_THE_LAST = "kill %+; wait %+"

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
ZOOKEEPER = """printf 'dataDir=zookeeper\\nclientPort=2181\\nadmin.enableServer=false\\n' > zookeeper.properties
zookeeper-server-start.sh zookeeper.properties > zookeeper.log 2>&1 &
until (echo > /dev/tcp/127.0.0.1/2181) 2>/dev/null; do sleep 0.2; done"""
EAST_AND_WEST = [
    """set -- --data ./west listeners=PLAINTEXT://127.0.0.3:9092 advertised.listeners=PLAINTEXT://west:9092
kafkapy start "$@" &
set -- --data ./east listeners=PLAINTEXT://127.0.0.2:9092 advertised.listeners=PLAINTEXT://east:9092
kafkapy start "$@" &
export KAFKAPY_BOOTSTRAP=east:9092
until kafkapy brokers -b west:9092 && kafkapy brokers; do sleep 0.2; done""",
    "for each in orders payments.card flights; do echo one | kafkapy produce $each; done",
    "kafkapy groups reset-offsets billing --topic orders --to latest",
    "kafkapy groups reset-offsets reports-1 --topic flights --to latest",
]
SERVER = """cat > server.properties <<END
log.dirs=$PWD/data
listeners=PLAINTEXT://127.0.0.1:9092
zookeeper.connect=zoo:2181/kafka
offsets.topic.replication.factor=1
END"""
SECTIONS: dict[tuple[str, str], list[str]] = {
    ("README.md", "Thirty seconds"): [],
    ("docs/cluster.md", ""): [ZOOKEEPER],
    ("docs/cluster.md", "Commands"): ["kafkapy cluster start", "kafkapy topics create flights --partitions 4"],
    ("docs/cluster.md", "A cluster in one process"): [],
    ("docs/faults.md", "The control port"): [],
    ("docs/mirror.md", ""): EAST_AND_WEST,
    ("docs/operations.md", "Listening for other machines"): ["export HOME=$PWD"],
    ("docs/operations.md", "To Apache Kafka and back"): [
        *(BROKER, "kafkapy topics create flights", FILL, STOP, ZOOKEEPER, SERVER),
    ],
    ("docs/operations.md", "Looking into the files"): [
        *(BROKER, "kafkapy topics create flights", FILL, GROUP, STOP),
    ],
    ("docs/operations.md", "Transactions"): [
        *(BROKER, ORDERS, "seq 1500 | kafkapy produce orders", OPEN, HANGING),
    ],
}
"""Page and heading, and what is there before the section begins."""


def blocks(page: str, heading: str) -> list[list[str]]:
    """The commands of each block of a section, or of what is before the first one; a Python program is a command."""
    text = (ROOT / page).read_text(encoding="utf-8")
    begin = text.partition(f"\n## {heading}\n")[2] if heading else text
    found = []
    for _, language, content in BLOCK.findall(begin.partition("\n## ")[0]):
        if language == "console":
            found.append([command or STOP_THE_LAST for command, _ in STEP.findall(content)])
        elif language == "python":
            found.append([f"python - <<'END'\n{content}END"])
    return found


class Reader:
    """Types the commands of a section."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._is_running = False

    def stop(self) -> None:
        """Stop the brokers that run, if any."""
        if self._is_running:
            self._shell.run(STOP)
        self._is_running = False

    def type(self, commands: list[str]) -> None:
        """Run the commands of a block; the first broker that it starts ends those of earlier blocks."""
        has_started = False
        for command in commands:
            if command == STOP:
                self.stop()
            elif STARTS.match(command):
                if not has_started:
                    self.stop()
                has_started = self._is_running = True
                self._shell.run(f"{command.partition(' #')[0].rstrip(' &')} &")
                self._shell.run(CONTROLLED if "--control-port" in command else ANSWERS)
            elif ENDLESS.match(command):
                self._shell.run(f"timeout --preserve-status --signal=INT 8 {command}")
            elif command != INSTALLS:
                self._shell.run(command)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="a network of its own wants Linux's unshare command")
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("page", "heading"), SECTIONS, ids=lambda each: each.replace(" ", "-"))
def test_a_section_runs_as_printed(page: str, heading: str, tmp_path: Path) -> None:
    found = blocks(page, heading)
    assert [command for block in found for command in block], "the page has no such section, or no commands in it"
    with Shell(tmp_path) as shell:
        reader = Reader(shell)
        for block in (SECTIONS[page, heading], *found):
            reader.type(block)
        reader.stop()
