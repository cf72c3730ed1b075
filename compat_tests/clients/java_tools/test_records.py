"""The console, verifiable and performance producers and consumers."""

import json
import re
from typing import Any

import pytest

from compat_tests.clients.client import CODECS
from compat_tests.clients.java_tools.conftest import BrokerTools
from harness.java_tools import JavaTools

pytestmark = pytest.mark.scenario("records", client="kafka-tools-{tools_version}")


def _events(out: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [event for event in found if event.get("name") == name]


def test_the_console_passes_keys_headers_and_order(tools: BrokerTools, topic_name: str) -> None:
    tools.create(topic_name)
    settings = ["--property", "parse.key=true", "--property", "key.separator=:"]
    text = "".join(f"k{i % 3}:väl {i}\n" for i in range(50))
    tools.run("ConsoleProducer", "--topic", topic_name, *settings, text=text)
    shown = tools.shown(print_key="true", key_separator=":")
    assert tools.consume(topic_name, 50, "--from-beginning", *shown) == text.splitlines()
    assert tools.consume(topic_name, 2, "--partition", "0", "--offset", "48", *shown) == text.splitlines()[48:]


def test_the_console_prints_where_and_when(tools: BrokerTools, topic_name: str) -> None:
    tools.create(topic_name, 1, "--config", "message.timestamp.type=LogAppendTime")
    tools.fill(topic_name, ["one", "two"])
    shown = tools.shown(print_timestamp="true", print_partition="true", print_offset="true", print_headers="true")
    lines = tools.consume(topic_name, 2, "--from-beginning", *shown)
    assert all(re.match(r"LogAppendTime:\d{13}\tPartition:0\t", line) for line in lines)
    assert [re.search(r"Offset:(\d)\tNO_HEADERS\t(\w+)$", line) is not None for line in lines] == [True, True]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_performs(tools: BrokerTools, topic_name: str, codec: str) -> None:
    tools.create(topic_name, 2)
    properties = [f"bootstrap.servers={tools.bootstrap}", f"compression.type={codec}", "acks=all"]
    load = ["--num-records", "2000", "--record-size", "200", "--throughput", "-1"]
    out = tools.tools.run("ProducerPerformance", "--topic", topic_name, *load, "--producer-props", *properties)
    assert "2000 records sent" in out
    count = ["--messages", "2000", "--timeout", "20000"]
    report = tools.run("ConsumerPerformance", "--topic", topic_name, *count).splitlines()[-1].split(", ")
    assert report[4] == "2000"
    assert report[2] == "0.3815"


def test_the_verifiable_consumer_reads_the_verifiable_producers_records(tools: BrokerTools, topic_name: str) -> None:
    tools.create(topic_name, 3)
    option = "--broker-list" if tools.version.startswith("2.") else "--bootstrap-server"
    alone = JavaTools(tools.version)  # its summary comes from a hook at the end of its JVM
    load = ["--max-messages", "1000", "--acks", "-1"]
    produced = alone.run("VerifiableProducer", option, tools.bootstrap, "--topic", topic_name, *load)
    sent = _events(produced, "producer_send_success")
    assert sorted(int(event["value"]) for event in sent) == list(range(1000))
    assert len({(event["partition"], event["offset"]) for event in sent}) == 1000
    (summary,) = _events(produced, "tool_data")
    assert (summary["sent"], summary["acked"]) == (1000, 1000)
    group = ["--group-id", f"group-of-{topic_name}", "--max-messages", "1000", "--verbose"]
    out = tools.by_older_name("VerifiableConsumer", "--topic", topic_name, *group)
    read = {(event["partition"], event["offset"]): event["value"] for event in _events(out, "record_data")}
    assert read == {(event["partition"], event["offset"]): event["value"] for event in sent}
    assert all(event["success"] for event in _events(out, "offsets_committed"))
    assert len(_events(out, "shutdown_complete")) == 1
