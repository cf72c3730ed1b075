"""A short run of the fuzzer with a fixed seed, and its reports of faults."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.attack.fuzzer import Fuzzer, FuzzError, Replay, Target, kept
from compat_tests.attack.second_client import SecondClient

SEED = 20_261_123
SECONDS = 40.0
SECURED_SECONDS = 6.0
MANY = 10**9
BUG = """ERROR kafkapy: A handler failed
Traceback (most recent call last):
  File "kafkapy/server/handlers/fetch.py", line 7, in handle
    return None + 1
TypeError: unsupported operand
"""


@pytest.fixture
def target() -> Iterator[Target]:
    with Target() as started:
        yield started


@pytest.mark.timeout(300)
def test_a_short_run_finds_no_fault(target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The limits of latency are those of the long run on an idle machine; here the client is only answered in time."""
    with SecondClient(target.process.port, topic=target.own_topic) as second:
        fuzzer = Fuzzer(target, second, SEED, tmp_path)
        fuzzer.run(MANY, SECONDS)
        with capsys.disabled():
            print(f"\nseed {SEED}: {fuzzer.figures()}", *fuzzer.table(), sep="\n")
        acknowledged = fuzzer.verify()
    assert fuzzer.frames > 5000
    assert set(fuzzer.kinds) == {"mutated", "records", "many", "half", "sizes", "garbage", "unread", "bomb", "large"}
    assert acknowledged > 100
    assert fuzzer.latencies.percentile(0.5) < 1.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("before_login", [False, True], ids=["logged-in", "before-login"])
def test_a_short_run_over_sasl_ssl_finds_no_fault(before_login: bool, tmp_path: Path) -> None:
    with (
        Target(security="sasl_ssl") as target,
        SecondClient(target.second_port, topic=target.own_topic) as second,
    ):
        fuzzer = Fuzzer(target, second, SEED, tmp_path, before_login=before_login)
        fuzzer.run(MANY, SECURED_SECONDS)
        assert fuzzer.verify() > 20
    assert fuzzer.frames > 500
    kinds = {"login", "any-order", "garbage", "greeting", "records"} if before_login else {"mutated", "many", "large"}
    assert kinds <= set(fuzzer.kinds)


@pytest.mark.timeout(300)
def test_the_fuzzer_reports_tracebacks_and_exits(target: Target, tmp_path: Path) -> None:
    with SecondClient(target.process.port, topic=target.own_topic) as second:
        fuzzer = Fuzzer(target, second, SEED, tmp_path)
        with target.process.log_path.open("a") as log:
            log.write(BUG)
        with pytest.raises(FuzzError, match=r"a traceback.*A handler failed"):
            fuzzer.run(MANY, SECONDS)
        conversations = kept(tmp_path / f"{SEED}-failure.json")
        assert [each.number for each in conversations] == list(range(len(conversations)))
        assert Replay(target).run(conversations[:3]) == {}
        assert fuzzer.places == {"TypeError at fetch.py:7 handle": 1}
        assert target.process.pid is not None
        os.kill(target.process.pid, signal.SIGKILL)
        with pytest.raises(FuzzError, match=r"ended by itself with -9"):
            fuzzer.run(MANY, SECONDS)
