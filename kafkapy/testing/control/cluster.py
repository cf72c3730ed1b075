"""The requests of a cluster's control port: brokers that stop, start and are separated, one clock, faults by broker.

The faults of broker 1 are at ``/brokers/1/faults``, as those of a broker that is alone are at ``/faults``.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Final

from kafkapy.observe.http.messages import HttpError
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.control.routes import (
    CLOCK_ROUTES,
    FAULT_ROUTES,
    Answer,
    Call,
    Controlled,
    ControlRoute,
    JsonValue,
    refused,
)
from kafkapy.testing.errors import TestingError
from kafkapy.testing.hosting.cluster_surface import MOST_BROKERS
from kafkapy.testing.hosting.hosted_broker import HostedBroker
from kafkapy.testing.hosting.hosted_cluster import HostedCluster

Change = Callable[[HostedBroker], Coroutine[Any, Any, None]]


class ControlledCluster:
    """The cluster that a control port controls."""

    title: Final = "Brokers, faults and the clock of a kafkapy cluster"
    example: Final = "/brokers/1/kill {}"

    def __init__(self, cluster: HostedCluster) -> None:
        self.cluster: Final = cluster

    @property
    def routes(self) -> "Sequence[ControlRoute[ControlledCluster]]":
        """See ``Controllable``."""
        return CLUSTER_ROUTES

    @property
    def clock(self) -> MovingClock:
        """The clock of all brokers."""
        return self.cluster.clock

    def host(self, broker: int) -> HostedBroker:
        """A broker. Raises ``HttpError``."""
        if broker >= len(self.cluster.hosts):
            ids = ", ".join(str(host.broker_id) for host in self.cluster.hosts)
            raise HttpError(HTTPStatus.NOT_FOUND, f"there is no broker {broker}; there is {ids}")
        return self.cluster.hosts[broker]


ClusterCall = Call[ControlledCluster]


def _state(of: ControlledCluster, host: HostedBroker) -> JsonValue:
    return {
        "id": host.broker_id,
        "bootstrap": host.bootstrap,
        "is_running": host.is_running,
        "is_paused": host.faults.is_paused,
        "is_controller": host is of.cluster.active,
    }


def _cluster(call: ClusterCall) -> Answer:
    cluster = call.of.cluster
    return HTTPStatus.OK, {
        "bootstrap": cluster.bootstrap,
        "brokers": [_state(call.of, host) for host in cluster.hosts],
        "separated": cluster.links.broken,
        "under_replicated": [str(each) for each in cluster.under_replicated()],
    }


def _broker(call: ClusterCall) -> Answer:
    return HTTPStatus.OK, _state(call.of, call.of.host(call.numbers["broker"]))


def _pause(call: ClusterCall) -> Answer:
    call.of.host(call.numbers["broker"]).faults.pause()
    return _broker(call)


def _resume(call: ClusterCall) -> Answer:
    call.of.host(call.numbers["broker"]).faults.resume()
    return _broker(call)


def _changing(change: Change) -> Callable[[ClusterCall], Awaitable[Answer]]:
    """A request that stops or starts a broker, answered when the other brokers know of it."""

    def answer(call: ClusterCall) -> Awaitable[Answer]:
        host = call.of.host(call.numbers["broker"])
        return _told(change(host), lambda: _broker(call))

    return answer


async def _told(work: Coroutine[Any, Any, None], answer: Callable[[], Answer]) -> Answer:
    try:
        await work
    except TestingError as error:
        raise HttpError(HTTPStatus.CONFLICT, str(error)) from error
    return answer()


async def _restart(host: HostedBroker) -> None:
    await host.stop()
    await host.start()


def _separate(call: ClusterCall) -> Awaitable[Answer]:
    groups = call.body["groups"]
    if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
        raise refused(f"groups must be a list of lists of broker ids, as [[0], [1, 2]], not {str(groups)[:80]}")
    if len(groups) > MOST_BROKERS:
        raise refused(f"there are {len(groups)} groups: give at most {MOST_BROKERS}")
    for broker in (broker for group in groups for broker in group):
        if not isinstance(broker, int) or isinstance(broker, bool) or broker < 0:
            raise refused(f"{str(broker)[:80]} is no id of a broker")
        call.of.host(broker)
    return _told(call.of.cluster.separate(groups), lambda: _cluster(call))


def _heal(call: ClusterCall) -> Awaitable[Answer]:
    return _told(call.of.cluster.heal(), lambda: _cluster(call))


def _of_broker(route: ControlRoute[Controlled]) -> ControlRoute[ControlledCluster]:
    """The request of a broker that is alone, for one of a cluster's."""

    def answer(call: ClusterCall) -> Answer | Awaitable[Answer]:
        host = call.of.host(call.numbers["broker"])
        of_broker = Controlled(host.faults, call.of.clock, lambda: host.bootstrap)
        return route.answer(Call(of_broker, call.numbers, call.body))

    return ControlRoute(route.method, f"/brokers/{{broker}}{route.path}", route.does, answer, route.fields)


_GROUPS: Final = (
    ("groups", "array", True, "lists of broker ids; the brokers in none of them form one more, as [[0]] cuts 0 off"),
)

CLUSTER_ROUTES: Final[tuple[ControlRoute[ControlledCluster], ...]] = (
    ControlRoute(
        "GET",
        "/cluster",
        "The brokers, which can't reach each other, and partitions with replicas not in sync",
        _cluster,
    ),
    ControlRoute(
        "POST", "/cluster/separate", "Break the connections between brokers of different groups", _separate, _GROUPS
    ),
    ControlRoute("POST", "/cluster/heal", "Let all brokers reach each other again", _heal),
    ControlRoute("GET", "/brokers/{broker}", "A broker's address, and whether it runs, is paused, controls", _broker),
    ControlRoute(
        "POST", "/brokers/{broker}/kill", "Stop a broker as if its process were killed", _changing(HostedBroker.kill)
    ),
    ControlRoute(
        "POST", "/brokers/{broker}/stop", "Stop a broker; its leaderships move first", _changing(HostedBroker.stop)
    ),
    ControlRoute("POST", "/brokers/{broker}/start", "Start a broker that was stopped", _changing(HostedBroker.start)),
    ControlRoute("POST", "/brokers/{broker}/restart", "Stop a broker, and start it again", _changing(_restart)),
    ControlRoute("POST", "/brokers/{broker}/pause", "Pause a broker: requests and answers wait", _pause),
    ControlRoute("POST", "/brokers/{broker}/resume", "Resume a broker, and end the pauses of rules", _resume),
    *CLOCK_ROUTES,
    *map(_of_broker, FAULT_ROUTES),
)
