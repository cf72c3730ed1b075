"""A broker for blocking tests."""

import asyncio
import socket
from pathlib import Path

import pytest

import kafkapy.testing
from harness.client import Client, batch
from harness.wire import Wire
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.testing import Broker, BrokerNotRunningError, BrokerStartError, NotInTimeError


def test_the_broker_serves_within_the_with_and_is_closed_after_it() -> None:
    with Broker(topics=["t"]) as broker:
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        with socket.create_connection(("127.0.0.1", broker.port)):
            assert broker.is_running
        data, port = broker.data, broker.port
        assert (data / "t-0").is_dir()
    assert not broker.is_running
    assert not data.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_stop_start_restart_and_kill_keep_the_records() -> None:
    with Broker(topics=["t"]) as broker:
        address = broker.bootstrap
        for at, again in enumerate((broker.restart, broker.kill, broker.stop)):
            broker.produce("t", b"%d" % at)
            again()
            broker.start()
            assert broker.bootstrap == address
        assert [each.value for each in broker.records("t")] == [b"0", b"1", b"2"]


def test_a_broker_is_started_and_closed_without_a_with() -> None:
    broker = Broker().start()
    broker.close()
    broker.close()
    with broker.start():
        assert broker.is_running


def test_calls_before_the_start_and_after_the_end_are_refused() -> None:
    broker = Broker()
    for ask in (broker.stop, broker.kill, lambda: broker.port, lambda: broker.bootstrap):
        with pytest.raises(BrokerNotRunningError, match="was not started"):
            ask()


def test_a_port_in_use_is_reported_in_one_line_and_leaves_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = Broker(port=port)
        with pytest.raises(BrokerStartError, match=rf"^port {port} of 127\.0\.0\.1 is not available"):
            broker.start()
    with broker:
        assert broker.port == port


def test_an_unknown_setting_is_reported_in_one_line() -> None:
    with pytest.raises(BrokerStartError, match=r"'num\.partition'; did you mean 'num\.partitions'\?$"), \
            Broker({"num.partition": 1}):  # fmt: skip
        pytest.fail("it must not start")


def test_a_restart_that_fails_can_be_tried_again(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data", topics=["t"]) as broker:
        broker.produce("t", b"v")
        broker.stop()
        with Broker(data=tmp_path / "data"), pytest.raises(BrokerStartError, match="in use by another broker"):
            broker.start()
        assert not broker.is_running
        broker.start()
        assert len(broker.records("t")) == 1


def test_faults_and_the_clock_are_the_brokers() -> None:
    async def produced(broker: Broker) -> int:
        client = Client(*await asyncio.open_connection("127.0.0.1", broker.port))
        code = (await client.produce("t", batch(b"v"))).error_code
        await client.close()
        return code

    with Broker(topics=["t"]) as broker:
        with broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", count=1) as rule:
            assert [asyncio.run(produced(broker)) for _ in range(2)] == [6, 0]
        assert rule.fired == 1
        before = broker.clock.now_ms()
        broker.clock.advance(3_600_000)
        assert broker.produce("t", b"late").timestamp >= before + 3_600_000
        broker.restart()
        assert broker.clock.now_ms() >= before + 3_600_000


def test_calls_time_out() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    with Broker() as broker, pytest.raises(NotInTimeError, match=r"did not finish the call within 0\.02 s"):
        broker._call(never(), 0.02)


def test_every_listed_name_can_be_imported() -> None:
    for name in kafkapy.testing.__all__:
        assert getattr(kafkapy.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="Brokers"):
        _ = kafkapy.testing.Brokers


@pytest.mark.parametrize(("act_as", "oldest_fetch"), [(None, 0), ("2.7", 0), ("4.4", 4)])
def test_a_broker_acts_as_a_release(act_as: str | None, oldest_fetch: int) -> None:
    with Broker(act_as=act_as) as broker, Wire(broker.bootstrap) as wire:
        listed = {each.api_key: each.min_version for each in wire.ask(ApiVersionsRequest(), 0).api_keys}
        assert listed[ApiKey.FETCH] == oldest_fetch
        assert (ApiKey.DESCRIBE_CLUSTER in listed) is (act_as != "2.7")


def test_a_release_must_be_known() -> None:
    with pytest.raises(BrokerStartError, match=r"kafkapy\.api\.release"):
        Broker(act_as="3.0").start()
