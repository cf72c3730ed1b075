"""A Kafka broker inside a test's own process, with helpers for assertions.

``Broker`` and ``AsyncBroker`` start one, ``Cluster`` and ``AsyncCluster`` several (``docs/testing.md`` shows how);
``plugin`` is the pytest plugin. This package imports the broker at the first access to one of its names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafkapy.testing.async_broker import AsyncBroker
    from kafkapy.testing.async_cluster import AsyncCluster
    from kafkapy.testing.broker import Broker
    from kafkapy.testing.clock.moving import MovingClock
    from kafkapy.testing.cluster import Cluster
    from kafkapy.testing.contents.groups import GroupMember
    from kafkapy.testing.contents.records import TopicRecord
    from kafkapy.testing.errors import (
        BrokerNotRunningError,
        BrokerStartError,
        NotInTimeError,
        RequestRefusedError,
        TestingError,
        UnknownNameError,
    )
    from kafkapy.testing.faults import Faults, InvalidFaultError, UnknownMemberError

__all__ = [
    "Broker", "AsyncBroker", "Cluster", "AsyncCluster", "TopicRecord", "GroupMember",
    "Faults", "InvalidFaultError", "UnknownMemberError", "MovingClock",
    "TestingError", "BrokerStartError", "BrokerNotRunningError", "UnknownNameError", "RequestRefusedError",
    "NotInTimeError",
]  # fmt: skip

_MODULES: Final = {
    "Broker": "broker",
    "AsyncBroker": "async_broker",
    "Cluster": "cluster",
    "AsyncCluster": "async_cluster",
    "TopicRecord": "contents.records",
    "GroupMember": "contents.groups",
    "Faults": "faults",
    "InvalidFaultError": "faults",
    "UnknownMemberError": "faults",
    "MovingClock": "clock.moving",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
