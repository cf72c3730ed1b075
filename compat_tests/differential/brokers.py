"""The two brokers side by side, with equal settings."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from compat_tests.differential.comparison import Comparison
from compat_tests.differential.settling import ask, is_passing
from compat_tests.differential.sides import Side
from compat_tests.groups.wire import join_request
from compat_tests.security.secured import SecuredBroker
from harness.kafkapy_process import KafkapyProcess
from harness.process import ChildProcess
from harness.real_kafka import RealKafka
from harness.tunnel import Tunnel
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest

AS_2_7: Final = {"kafkapy.api.release": "2.7", "transaction.partition.verification.enable": "false"}
"""What kafkapy needs to answer as 2.7.2, with its fault that a late batch opens a transaction (KIP-890)."""
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "max.incremental.fetch.session.cache.slots": "100000",
    "log.cleaner.enable": "false",  # compaction is not compared here
    "delete.records.purgatory.purge.interval.requests": "1",
    "log.retention.ms": "-1",
    "offsets.retention.check.interval.ms": str(2**31 - 1),  # forgets groups that are empty when it strikes
}
"""One partition for each coordinator, so that it is loaded before the first request of a test."""
OWN_SETTINGS: Final[dict[str, dict[str, str]]] = {
    "2.7.2": {**AS_2_7, "broker.id": "0"},  # Apache Kafka lists keys that it does not know, too
    "4.4.0": {},
}
"""By release, what both need beside that."""


@contextmanager
def side_by_side(security: str = "", release: str = "2.7.2") -> Iterator[Comparison]:
    """Start both, and compare them when their coordinators are loaded.

    With a kind of security the requests are those of a client that has logged in so.
    """
    settings = {**SETTINGS, **OWN_SETTINGS[release]}
    with ExitStack() as stack:
        theirs, ours = (
            stack.enter_context(_started(process, security))
            for process in (
                RealKafka(release, heap="512M", config=settings),
                KafkapyProcess(config={"broker.id": "1", **settings}),
            )
        )
        for bootstrap in (theirs, ours):
            warm_up(bootstrap)
        with Comparison(theirs, ours, release) as comparison:
            yield comparison


@contextmanager
def _started(process: ChildProcess, security: str) -> Iterator[str]:
    """Start a broker; the address at which plain bytes reach it, which is the one that it advertises."""
    with ExitStack() as stack:
        stack.callback(process.close)
        if not security:
            yield process.start().bootstrap
            return
        broker = SecuredBroker(process)
        properties = broker.security[security].java_properties("", "alice")
        tunnel = stack.enter_context(Tunnel(broker.port(security), properties))
        settings = broker.settings()
        del settings["delegation.token.master.key"]  # tokens are random, and compared elsewhere
        own, through = broker.addresses[security], tunnel.bootstrap
        process.overrides.update({**settings, "advertised.listeners": settings["listeners"].replace(own, through)})
        process.start()
        broker.store_users()
        yield through


def warm_up(bootstrap: str) -> None:
    """Create and load the topics of both coordinators: Kafka creates them at the first request."""
    side = Side(bootstrap)
    for request, version in (
        (FindCoordinatorRequest("g", 0), 1),
        (FindCoordinatorRequest("t", 1), 1),
        (join_request("g", "nobody"), 1),
        (InitProducerIdRequest("t", 60_000), 1),
    ):
        while is_passing(ask(side, request, version)):
            side.connection(-1).receive(0.1)
    side.close()
