"""``kafkapy configs`` on a running broker."""

import json

import pytest

from kafkapy.clients import connection
from kafkapy.config.broker_keys import BROKER_KEYS
from kafkapy.config.documentation import broker_documentation, topic_documentation
from kafkapy.config.transaction_keys import TRANSACTION_KEYS
from kafkapy.protocol.api_keys import ApiKey
from tests.cli.conftest import Run


def test_describe_shows_settings_or_all_keys(run: Run) -> None:
    run("topics", "create", "c-plain")
    shown = run("configs", "describe", "topic", "c-plain").out
    assert shown == "topic c-plain: no keys are set; --all shows the defaults too\n"
    assert run("configs", "describe", "brokers").out == "brokers: no keys are set\n"
    run("topics", "create", "c-one", "-c", "segment.ms=7")
    assert json.loads(run("configs", "describe", "topic", "c-one", "--json").out) == [
        {"key": "segment.ms", "value": "7", "source": "topic", "read_only": False}
    ]
    assert len(json.loads(run("configs", "describe", "topic", "c-one", "--all", "--json").out)) == 26
    broker = {row["key"]: row for row in json.loads(run("configs", "describe", "broker", "0", "-a", "--json").out)}
    assert len(broker) == 216 + 1  # the verification of transactions, which the broker of these tests has off
    assert broker["ssl.key.password"]["value"] == "[hidden]"
    assert broker["listeners"]["source"] == "server.properties"


def test_alter_a_topic(run: Run) -> None:
    run("topics", "create", "c-two", "-c", "segment.ms=7")
    altered = run("configs", "alter", "topic", "c-two", "retention.ms=5", "--delete", "segment.ms")
    assert altered.out == "altered: retention.ms, segment.ms\n"
    described = json.loads(run("configs", "describe", "topic", "c-two", "--json").out)
    assert [(row["key"], row["value"]) for row in described] == [("retention.ms", "5")]


def test_alter_a_group(run: Run) -> None:
    assert run("configs", "alter", "group", "readers", "consumer.session.timeout.ms=50000").code == 0
    described = json.loads(run("configs", "describe", "group", "readers", "--json").out)
    assert [(row["key"], row["value"], row["source"]) for row in described] == [
        ("consumer.session.timeout.ms", "50000", "group")
    ]
    assert len(json.loads(run("configs", "describe", "group", "other", "--all", "--docs", "--json").out)) == 3


def test_alter_brokers(run: Run) -> None:
    assert run("configs", "alter", "brokers", "background.threads=12").code == 0
    assert run("configs", "alter", "broker", "0", "background.threads=14").code == 0
    assert run("configs", "alter", "brokers", "-d", "background.threads").code == 0
    assert run("configs", "alter", "broker", "0", "-d", "background.threads").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["describe", "topic"], "which topic? give its name"),
        (["describe", "broker"], "which broker? give its id"),
        (["describe", "group"], "which group? give its id"),
        (["describe", "brokers", "0"], "'brokers' means all brokers: it takes no name"),
        (["describe", "broker", "7"], "broker 7 is not in the cluster"),
        (["describe", "topic", "c-none"], "topic c-none does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
        (["alter", "topic", "c-none"], "nothing to alter: give key=value or --delete key"),
        (["alter", "broker", "0", "num.partitions=3"], "Cannot update these configs dynamically"),
        (["alter", "broker", "0", "=3"], "'=3' is no setting"),
    ],
)
def test_refusals_are_one_line(run: Run, words: list[str], message: str) -> None:
    refused = run("configs", *words)
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert message in refused.err


def test_describe_shows_the_documentation_of_keys(run: Run) -> None:
    run("topics", "create", "c-docs", "-c", "segment.ms=7")
    (row,) = json.loads(run("configs", "describe", "topic", "c-docs", "--docs", "--json").out)
    assert row["documentation"] == topic_documentation("segment.ms")
    assert "Age at which a log of the topic" in run("configs", "describe", "topic", "c-docs", "--docs").out
    rows = json.loads(run("configs", "describe", "broker", "0", "--all", "--docs", "--json").out)
    assert {row["key"]: row["documentation"] for row in rows} == {
        name: broker_documentation(name) for name in (*BROKER_KEYS, *TRANSACTION_KEYS)
    }


def test_an_older_broker_is_not_asked_for_documentation(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("topics", "create", "c-old", "-c", "segment.ms=7")
    monkeypatch.setitem(connection._HIGHEST, ApiKey.DESCRIBE_CONFIGS, 2)
    (row,) = json.loads(run("configs", "describe", "topic", "c-old", "--docs", "--json").out)
    assert row["value"] == "7"
    assert not row["documentation"]
