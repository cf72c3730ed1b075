"""A second broker of the same kind as the one under test, with another configuration; and brokers that may end."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Union

import pytest

from compat_tests.brokers.targets import KAFKA, KAFKAPY, is_cluster
from harness.kafkapy_process import KafkapyProcess
from harness.process import Broker, ChildProcess
from harness.real_kafka import RealKafka

if TYPE_CHECKING:
    from compat_tests.cluster.three_brokers import ThreeBrokers

STALL_S = 1.5
Mortal = Union[ChildProcess, "ThreeBrokers"]
"""A broker that `stop` ends and `start` brings back, or of a cluster one broker at a time."""


def own_broker(broker: Broker, config: Mapping[str, str]) -> ChildProcess:
    """Not started yet; whoever takes it closes it. Skips where the kind can't be told."""
    if broker.name == KAFKAPY:
        return KafkapyProcess(config=config)
    if broker.name.startswith(KAFKA) and not is_cluster(broker.name):
        return RealKafka(broker.name.removeprefix(KAFKA), config=config)
    pytest.skip("only single brokers that the tests start themselves can be configured")


def mortal_of(broker: Broker) -> AbstractContextManager[Mortal]:
    """A broker of its own for a test that ends it; a cluster, which runs on without one broker, is shared."""
    if is_cluster(broker.name):
        cluster: ThreeBrokers = broker  # type: ignore[assignment]  # the only kind of this name
        return nullcontext(cluster)
    return own_broker(broker, {})


def disturbances_of(mortal: Mortal, topics: Sequence[str], groups: Sequence[str]) -> list[Callable[[], None]]:
    """Faults of a broker, or of a cluster with clients that use these topics and groups."""
    if not isinstance(mortal, ChildProcess):
        return mortal.disturbances(topics, groups)

    def restart() -> None:
        mortal.stop()
        mortal.start()

    return [restart, lambda: stall(mortal)]


def stall(broker: ChildProcess) -> None:
    """Connections stay, answers don't come: longer than none of the clients' patience, long enough to fill buffers."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    time.sleep(STALL_S)
    os.kill(broker.pid, signal.SIGCONT)
