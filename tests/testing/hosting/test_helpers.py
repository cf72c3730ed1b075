"""The helpers as a whole: internal topics are left out, and both kinds of broker have all helpers."""

import inspect

import pytest

from kafkapy.testing import AsyncBroker, Broker, BrokerNotRunningError
from kafkapy.testing.hosting.helpers import Helpers

CALLS = {
    "create_topic": ("t",),
    "delete_topic": ("t",),
    "topics": (),
    "produce": ("t", b""),
    "records": ("t",),
    "wait_for_records": ("t", 1),
    "groups": (),
    "committed": ("g",),
    "lag": ("g",),
    "wait_until_stable": ("g",),
    "wait_until_caught_up": ("g",),
}


def test_internal_topics_are_not_listed() -> None:
    with Broker(topics=["t"]) as broker:
        broker.create_topic("__consumer_offsets")
        assert broker.topics() == {"t": 1}


@pytest.mark.parametrize("name", CALLS)
def test_a_helper_of_a_stopped_broker_is_refused(name: str) -> None:
    with Broker() as broker:
        broker.stop()
        with pytest.raises(BrokerNotRunningError, match="the broker is stopped"):
            getattr(broker, name)(*CALLS[name])
    with pytest.raises(BrokerNotRunningError, match="was not started"):
        getattr(broker, name)(*CALLS[name])


def test_both_kinds_of_broker_have_the_same_helpers() -> None:
    names = {name for name in vars(Helpers) if not name.startswith("_")}
    assert names == set(CALLS)
    for name in [name for name in vars(Broker) if not name.startswith("_")]:
        of_both = [vars(kind)[name] for kind in (Broker, AsyncBroker)]
        if callable(of_both[0]):
            first, second = (list(inspect.signature(each).parameters.values()) for each in of_both)
            assert first == second, name
            assert inspect.iscoroutinefunction(of_both[1])
