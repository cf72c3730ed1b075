"""A load that fails on one broker."""

from dataclasses import dataclass
from typing import cast

import pytest
from confluent_kafka import KafkaException

from bench.brokers.contestants import Arena, Contestant
from bench.loads.in_tests import MOCK, InTests
from bench.loads.load import Metrics
from bench.loads.newer import WITH_THEM, TransactionsOfVersion2
from bench.loads.transactions import Transactions
from bench.runner import Runner, peers_of, turns
from harness.measure import LoadError
from harness.process import BrokerError


@dataclass(frozen=True)
class Failing:
    error: Exception
    warm_ups = 0
    most_rounds = 2

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        if contestant.name == "bad":
            raise self.error
        return {"x": 1.0}


class Standing:
    def __init__(self, name: str) -> None:
        self.name = name

    def check_alive(self) -> None:
        pass


class Field:
    def running(self, name: str) -> Standing:
        return Standing(name)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LoadError("no"), "no"),
        (BrokerError("did not start:\na log"), "did not start:"),
        (KafkaException("timed out"), "timed out"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_the_other_brokers_go_on(error: Exception, said: str) -> None:
    runner = Runner(cast(Arena, Field()), ["good", "bad"], 2, lambda _: None)
    runs = runner.measure(Failing(error), "row")
    assert runs.measured == {"good": [{"x": 1.0}, {"x": 1.0}]}
    assert runs.failures == {"bad": said}


def test_peers_of_a_load_are_measured_after_the_brokers() -> None:
    load = InTests(1, 1)
    assert [name for _, name in turns(load, ["kafkapy", "kafka-2.7.2"], 1)][1:] == [*load.peers, "kafkapy"]
    assert peers_of(Transactions(1, 1)) == (MOCK,)
    assert peers_of(Failing(LoadError("no"))) == ()
    assert [name for _, name in turns(load, ["kafka-2.7.2"], 1)] == ["kafka-2.7.2"]


def test_a_broker_without_the_requests_of_a_load_takes_no_part() -> None:
    names = {name for _, name in turns(TransactionsOfVersion2(1), ["kafkapy", "kafka-2.7.2", "kafka-4.4.0"], 1)}
    assert names == set(WITH_THEM) == {"kafkapy", "kafka-4.4.0"}
