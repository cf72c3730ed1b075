"""A second broker of the same kind as the one under test, with another configuration."""

from collections.abc import Mapping

import pytest

from compat_tests.kafkapy_process import KafkapyProcess
from compat_tests.process import Broker, ChildProcess
from compat_tests.real_kafka import RealKafka
from compat_tests.targets import KAFKA, KAFKAPY


def own_broker(broker: Broker, config: Mapping[str, str]) -> ChildProcess:
    """Not started yet; whoever takes it closes it. Skips where the kind can't be told."""
    if broker.name == KAFKAPY:
        return KafkapyProcess(config=config)
    if broker.name.startswith(KAFKA):
        return RealKafka(broker.name.removeprefix(KAFKA), config=config)
    pytest.skip("only brokers that the tests start themselves can be configured")
