"""The control port of a cluster, over HTTP."""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kafkapy.network.loop import BrokerLoop
from kafkapy.observe.http.messages import HttpLimits
from kafkapy.testing.control.cluster import ControlledCluster
from kafkapy.testing.control.port import ControlPort
from kafkapy.testing.hosting.hosted_broker import HostedBroker
from kafkapy.testing.hosting.hosted_cluster import HostedCluster
from tests.server.harness import until

Ask = Callable[..., Any]


def _asked(port: int, method: str, path: str, body: Any) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, json.dumps(body or {}), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


@asynccontextmanager
async def _controlled(brokers: int = 3) -> AsyncIterator[tuple[HostedCluster, Ask]]:
    """A cluster with topic t, and a function that asks its control port and checks the status."""
    cluster = HostedCluster([HostedBroker() for _ in range(brokers)], {"t": 1})
    port = ControlPort(ControlledCluster(cluster))
    await cluster.start()
    await port.start()

    async def ask(method: str, path: str, status: int = 200, **body: Any) -> Any:
        found, answer = await asyncio.to_thread(_asked, port.port, method, path, body)
        assert found == status, answer
        return answer

    try:
        yield cluster, ask
    finally:
        await port.stop()
        await cluster.close()


def _run(scenario: Any) -> None:
    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        runner.run(asyncio.wait_for(scenario(), 60))


def test_brokers_are_killed_and_started() -> None:
    async def scenario() -> None:
        async with _controlled() as (cluster, ask):
            shown = await ask("GET", "/cluster")
            assert shown["bootstrap"] == cluster.bootstrap
            assert [broker["id"] for broker in shown["brokers"]] == [0, 1, 2]
            (controller,) = [broker["id"] for broker in shown["brokers"] if broker["is_controller"]]
            assert not (await ask("POST", f"/brokers/{controller}/kill"))["is_running"]
            await cluster.controller()
            shown = await ask("GET", "/cluster")
            assert [broker["id"] for broker in shown["brokers"] if broker["is_controller"]] != [controller]
            assert shown["under_replicated"] == ["t-0"]
            again = await ask("POST", f"/brokers/{controller}/start")
            assert (again["is_running"], again["bootstrap"]) == (True, cluster.hosts[controller].bootstrap)
            await cluster.in_sync(None, 10)
            assert not (await ask("POST", "/brokers/1/stop"))["is_running"]
            assert (await ask("POST", "/brokers/1/restart"))["is_running"]
            await cluster.in_sync(None, 10)
            assert (await ask("GET", "/cluster"))["under_replicated"] == []

    _run(scenario)


def test_all_partitions_are_under_replicated_when_no_broker_runs() -> None:
    async def scenario() -> None:
        async with _controlled() as (cluster, ask):
            await cluster.in_sync(None, 10)
            for broker in range(3):
                await ask("POST", f"/brokers/{broker}/kill")
            assert (await ask("GET", "/cluster"))["under_replicated"] == ["t-0"]
            for broker in range(3):
                await ask("POST", f"/brokers/{broker}/start")
            await cluster.in_sync(None, 10)
            assert (await ask("GET", "/cluster"))["under_replicated"] == []

    _run(scenario)


def test_brokers_are_paused_separated_and_their_clock_is_advanced() -> None:
    async def scenario() -> None:
        async with _controlled() as (cluster, ask):
            assert (await ask("POST", "/brokers/2/pause"))["is_paused"]
            assert cluster.hosts[2].faults.is_paused
            assert not (await ask("POST", "/brokers/2/resume"))["is_paused"]
            assert (await ask("POST", "/cluster/separate", groups=[[0], [1, 2]]))["separated"] == [[0, 1], [0, 2]]
            assert cluster.links.is_broken(frozenset((0, 1)))
            assert (await ask("POST", "/cluster/heal"))["separated"] == []
            assert (await ask("POST", "/clock/advance", duration_ms=60_000))["added_ms"] == 60_000
            assert cluster.clock.added_ms == 60_000

    _run(scenario)


def test_each_broker_has_its_own_faults() -> None:
    async def scenario() -> None:
        async with _controlled() as (cluster, ask):
            leader = (await cluster.leader("t", 0, 10)).broker_id
            rule = {"action": "error", "error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "count": 1}
            assert (await ask("POST", f"/brokers/{leader}/faults", 201, **rule))["id"] == 1
            others = [host for host in cluster.hosts if host.broker_id != leader]
            assert [host.faults.rules for host in others] == [(), ()]

            def produce() -> int:
                producer = Producer({"bootstrap.servers": cluster.bootstrap, "retry.backoff.ms": 10})
                producer.produce("t", b"v")
                return producer.flush(20)

            assert await asyncio.to_thread(produce) == 0
            assert (await ask("GET", f"/brokers/{leader}/faults/1"))["fired"] == 1
            assert len((await ask("DELETE", f"/brokers/{leader}/faults"))["faults"]) == 1
            await ask("POST", f"/brokers/{leader}/members/expire", 404, group="g")

    _run(scenario)


def test_bad_requests_are_refused_with_one_sentence() -> None:
    async def scenario() -> None:
        async with _controlled(1) as (cluster, ask):
            refusals = [
                (404, "GET", "/broker", {}, "there is nothing at /broker; / lists the paths"),
                (404, "GET", "/brokers/1", {}, "there is no broker 1; there is 0"),
                (404, "POST", "/brokers/99/kill", {}, "there is no broker 99; there is 0"),
                (404, "POST", "/brokers/7/faults", {"action": "drop"}, "there is no broker 7; there is 0"),
                (404, "GET", "/brokers/" + "9" * 30, {}, "there is nothing at /brokers/999"),
                (405, "GET", "/brokers/0/kill", {}, "/brokers/0/kill supports POST"),
                (400, "POST", "/brokers/0/kill", {"now": 1}, "/brokers/{broker}/kill has no field 'now'"),
                (400, "POST", "/cluster/separate", {}, "/cluster/separate needs groups: lists of broker ids"),
                (400, "POST", "/cluster/separate", {"groups": [0]}, "groups must be a list of lists of broker ids"),
                (400, "POST", "/cluster/separate", {"groups": [["a"]]}, "a is no id of a broker"),
                (400, "POST", "/cluster/separate", {"groups": [[True]]}, "True is no id of a broker"),
                (400, "POST", "/cluster/separate", {"groups": [[-1]]}, "-1 is no id of a broker"),
                (400, "POST", "/cluster/separate", {"groups": [[]] * 65}, "there are 65 groups: give at most 64"),
                (404, "POST", "/cluster/separate", {"groups": [[3]]}, "there is no broker 3; there is 0"),
                (400, "POST", "/clock/advance", {"duration_ms": -1}, "a clock can be advanced by 0 to"),
            ]
            for status, method, path, body, sentence in refusals:
                assert (await ask(method, path, status, **body))["error"].startswith(sentence)
            assert not cluster.links.are_broken
            assert cluster.hosts[0].is_running

    _run(scenario)


def test_a_start_that_fails_is_a_conflict() -> None:
    async def scenario() -> None:
        async with _controlled(2) as (cluster, ask):
            await ask("POST", "/brokers/1/stop")
            identity = "version=0\nbroker.id=1\ncluster.id=another\n"
            await asyncio.to_thread(Path(cluster.hosts[1].data, "meta.properties").write_text, identity)
            answer = await ask("POST", "/brokers/1/start", 409)
            assert "belongs to cluster another by its meta.properties" in answer["error"]
            await ask("GET", "/brokers/1")

    _run(scenario)


def test_requests_that_take_long_are_limited_and_end_with_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    started, release = [], asyncio.Event()

    async def slow(_self: HostedBroker) -> None:
        started.append(1)
        await release.wait()

    async def scenario() -> None:
        cluster = HostedCluster([HostedBroker()])
        await cluster.start()
        monkeypatch.setattr(cluster.hosts[0], "start", slow.__get__(cluster.hosts[0]))
        monkeypatch.setattr(cluster.hosts[0], "stop", slow.__get__(cluster.hosts[0]))
        port = ControlPort(ControlledCluster(cluster), limits=HttpLimits(connections=2))
        await port.start()
        request = b"POST /brokers/0/restart HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n"
        for at in range(2):  # the client does not wait for the answer
            _, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(request)
            await until(lambda at=at: len(started) == at + 1)
            writer.close()
        await until(lambda: not port.server.connections)
        status, answer = await asyncio.to_thread(_asked, port.port, "GET", "/cluster", {})
        assert (status, answer["error"]) == (409, "2 requests are not answered yet: wait for them")
        await port.stop()
        await cluster.close(cleanly=False)

    _run(scenario)
