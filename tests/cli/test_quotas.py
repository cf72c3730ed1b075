"""``kafkapy quotas``."""

import json
from collections.abc import Iterator

import pytest

from kafkapy.clients.quotas import KEYS
from kafkapy.testing import Broker
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def here() -> Iterator[list[str]]:
    with Broker() as broker:
        yield ["-b", broker.bootstrap]


def test_quotas_are_set_listed_and_removed(run: Run, here: list[str]) -> None:
    assert run("quotas", "list", *here).out == "quotas: none: clients may take as much as they can\n"
    done = run("quotas", "set", "--client-id", "import", "producer_byte_rate=1000", "request_percentage=0.5", *here)
    assert (done.code, done.out) == (0, "set: producer_byte_rate=1000 request_percentage=0.5\n")
    assert run("quotas", "set", "--user", "<default>", "--client-id", "c", "consumer_byte_rate=5", *here).code == 0
    listed = json.loads(run("quotas", "list", "--json", *here).out)
    nothing = dict.fromkeys(KEYS)
    assert listed == [
        {"user": None, "client-id": "import", **nothing, "producer_byte_rate": 1000.0, "request_percentage": 0.5},
        {"user": "<default>", "client-id": "c", **nothing, "consumer_byte_rate": 5.0},
    ]
    assert "import" in run("quotas", "list", *here).out
    assert run("quotas", "remove", "--client-id", "import", "request_percentage", *here).code == 0
    assert run("quotas", "remove", "--client-id", "import", *here).code == 0
    assert run("quotas", "remove", "--user", "<default>", "--client-id", "c", *here).code == 0
    assert json.loads(run("quotas", "list", "--json", *here).out) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["set", "producer_byte_rate=5"], "whose quota"),
        (["set", "--user", "a", "rate=5"], "rate is no quota: write producer_byte_rate or"),
        (["set", "--user", "a", "producer_byte_rate"], "write producer_byte_rate=NUMBER"),
        (["set", "--user", "a", "producer_byte_rate=x"], "write producer_byte_rate=NUMBER"),
        (["set", "--user", "a", "producer_byte_rate=0.5"], "producer_byte_rate must be a Long value"),
        (["set", "--user", "", "producer_byte_rate=5"], "Empty user not supported"),
        (["remove", "--user", "a", "rate"], "rate is no quota"),
    ],
)
def test_bad_words_are_refused_with_a_sentence(run: Run, here: list[str], words: list[str], says: str) -> None:
    refused = run("quotas", *words, *here)
    assert refused.code == 1
    assert says in refused.err
