"""``kafkapy mirror``: options, lines, signals; mirrors that are killed lose nothing; transactions double nothing."""

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkapy.cli import main as cli
from kafkapy.cli import mirror
from kafkapy.clients.mirror import reading
from kafkapy.clients.mirror.engine import MirrorProgress
from kafkapy.protocol.messages.fetch import PartitionData
from kafkapy.testing import Broker

ROOT = Path(__file__).resolve().parents[2]
KILLS = 5
RECORDS = 3000


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker(topics=["empty"]) as broker:  # a source without topics is asked again for some time
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def _mirror(source: Broker, target: Broker, *words: str) -> int:
    return cli.main(["mirror", "--from", source.bootstrap, "--to", target.bootstrap, *words])


def test_once(source: Broker, target: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a-1", "a-2", "b"):
        source.create_topic(name, 2)
        source.produce(name, b"v", key=b"k")
    assert _mirror(source, target, "--once", "--topics", "a-1,x|a-2") == 0
    out, err = capsys.readouterr()
    assert out == "copied 2 records of 4 partitions\n"
    assert err.splitlines() == [f"kafkapy: topic {name} is created on the target" for name in ("a-1", "a-2")]
    assert _mirror(source, target, "--once", "--exactly-once", "--json") == 0
    counts = {"records": 1, "batches": 1, "size": 70, "lag": 0, "partitions": 7}
    assert json.loads(capsys.readouterr().out) == {**counts, "is_connected": True}


def test_a_secured_source_and_target(target: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(security="scram", topics=["secured"]) as secured:
        assert secured.security is not None
        secured.produce("secured", b"v")
        target.create_topic("back")
        config = tmp_path / "client.properties"
        config.write_text("\n".join(secured.security.property_lines(secured.bootstrap)))
        there = [
            "mirror",
            "--once",
            "--to",
            target.bootstrap,
            "--from",
            secured.bootstrap,
            "--from-config",
            f"{config}",
        ]
        assert cli.main(there) == 0
        assert capsys.readouterr().out == "copied 1 record of 1 partition\n"
        back = ["mirror", "--once", "--from", target.bootstrap, "--to", secured.bootstrap, "--topics", "back"]
        assert cli.main([*back, "--to-config", f"{config}"]) == 0
        assert "topic back is created on the target" in capsys.readouterr().err
        config.write_text("security.protocol=TLS")
        assert cli.main(there) == 1
        assert str(config) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--topics", "a,("], r"kafkapy: --topics: '\(' is no pattern: missing \).*; a comma divides patterns$"),
        (["--groups", "a,*"], r"kafkapy: --groups: '\*' is no pattern: nothing to repeat.*; a comma divides patterns$"),
        (["--topics", "a,"], "kafkapy: --topics: a pattern is empty: write a Python regular expression"),
        (["--topics", ""], "kafkapy: --topics is empty: write a Python regular expression"),
        (["--topics", "no-such"], "kafkapy: no topic of the source matches --topics no-such: "),
        (["--group", ""], "kafkapy: --group is empty: name the group on the target"),
        (["--transactional-id", "x"], "kafkapy: --transactional-id is for --exactly-once only"),
        (["--to", "127.0.0.1:1"], "kafkapy: --to: no broker answers at 127.0.0.1:1: "),
        (["--from", "127.0.0.1:1"], "kafkapy: --from: no broker answers at 127.0.0.1:1: "),
    ],
)
def test_errors_are_one_line(
    source: Broker, target: Broker, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert _mirror(source, target, "--once", *words) == 1
    err = capsys.readouterr().err
    assert re.match(message, err)
    assert err.count("\n") == 1


@pytest.mark.usefixtures("heeded_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(
    source: Broker,
    target: Broker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    topic = f"watched-{number.name}"
    source.create_topic(topic, 1)
    source.produce(topic, b"v")
    monkeypatch.setattr(mirror, "_lines", lambda *_: lambda found: _end_when_copied(found, number))
    before = signal.getsignal(number)
    assert _mirror(source, target, "--topics", topic) == 0
    assert signal.getsignal(number) is before
    assert capsys.readouterr().out == "copied 1 record of 1 partition\n"


def _end_when_copied(found: MirrorProgress, number: signal.Signals) -> None:
    if found.records:
        os.kill(os.getpid(), number)


def test_the_second_ctrl_c_ends_at_once() -> None:
    with mirror._stopped_by_signals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(5)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_line_per_interval(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = itertools.count(0, 4)
    show = mirror._lines(lambda: next(seconds), 10)
    for at in range(1, 7):
        show(MirrorProgress(at, at, at * 1_000_000, 2000, 1, is_connected=at < 6))
    assert capsys.readouterr().err.splitlines() == [
        "3 records of 1 partition copied, 0.2 MB/s, lag 2,000",
        "6 records of 1 partition copied, 0.2 MB/s, not connected",
    ]


def test_a_bar_on_a_terminal(
    source: Broker, target: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "shows_progress", lambda: True)
    source.create_topic("shown", 1)
    source.produce("shown", b"v")
    assert _mirror(source, target, "--topics", "shown", "--once") == 0
    assert capsys.readouterr().out == "copied 1 record of 1 partition\n"


def test_damage_is_one_line(
    source: Broker, target: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(answer: PartitionData) -> reading.FetchedBatches:
        found = sound(answer)
        data = bytearray(found.records)
        data[-1] ^= 1
        return found._replace(records=memoryview(data))

    sound = reading._batches
    monkeypatch.setattr(reading, "_batches", damaged)
    source.create_topic("damaged", 1)
    source.produce("damaged", b"value")
    assert _mirror(source, target, "--topics", "damaged", "--once") == 1
    told = "partition damaged-0: the source has sent damaged records: The batch at offset 0 has a wrong CRC"
    assert [line for line in capsys.readouterr().err.splitlines() if "CRC" in line] == [f"kafkapy: {told}"]


class _Killed:
    """Mirrors in processes of their own, each killed when the target has some more batches than before."""

    def __init__(self, source: Broker, target: Broker, words: list[str]) -> None:
        main = "import sys; from kafkapy.cli.main import main; sys.exit(main())"
        self._command = [
            sys.executable, "-c", main, "mirror", "--from", source.bootstrap, "--to", target.bootstrap, *words,
        ]  # fmt: skip
        self._target = target
        self._random = random.Random(7)

    def run(self) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(self._command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def kill_one(self) -> None:
        process = self.run()
        wanted = self._size() + self._random.randrange(1, RECORDS // 10)
        while self._size() < wanted and process.poll() is None:
            threading.Event().wait(0.005)
        process.kill()
        process.communicate()

    def _size(self) -> int:
        if "killed" not in self._target.topics():
            return 0
        return len(self._target.records("killed"))


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--exactly-once"]], ids=["at-least-once", "exactly-once"])
def test_a_killed_mirror_loses_nothing(words: list[str]) -> None:
    with Broker(topics={"killed": 3}) as source, Broker() as target:
        for at in range(RECORDS):
            source.produce("killed", b"%d" % at, key=b"%d" % (at % 7), partition=at % 3)
        killed = _Killed(source, target, [*words, "--topics", "killed", "--once"])
        for _ in range(KILLS):
            killed.kill_one()
        last = killed.run()
        out, err = last.communicate(timeout=100)
        assert last.returncode == 0, err
        assert out.startswith(b"copied ")
        found = Counter(_identity(each) for each in target.records("killed", read_committed=True))
        wanted = Counter(_identity(each) for each in source.records("killed"))
        assert found.keys() == wanted.keys()
        if words:
            assert found == wanted
            assert len(target.records("killed")) > RECORDS
            for partition in range(3):
                copied = target.records("killed", partition=partition, read_committed=True)
                assert [each.value for each in copied] == [b"%d" % at for at in range(partition, RECORDS, 3)]


SHORT_END = "from kafkapy.cli import main, mirror; mirror.END_S = 0.5; main.main()"


@pytest.mark.parametrize("words", [[], ["--exactly-once"]], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize(("side", "api"), [("source", "Fetch"), ("target", "Produce")])
def test_silent_brokers_do_not_hold_a_mirror_that_is_stopped(words: list[str], side: str, api: str) -> None:
    with Broker(topics={"silent": 1}) as source, Broker() as target:
        source.produce("silent", b"v")
        command = [sys.executable, "-c", SHORT_END, "mirror", "--from", source.bootstrap, "--to", target.bootstrap]
        silent = {"source": source, "target": target}[side]
        with silent.faults.hold(api=api) as held:
            process = subprocess.Popen(
                [*command, *words], env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
            )
            while not held.fired:
                assert process.poll() is None
                threading.Event().wait(0.01)
            process.terminate()
            _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert "have not answered within 0 s of the signal; the mirror ends without its last commit" in err
        assert _mirror(source, target, "--once", *words) == 0
        found = [each.value for each in target.records("silent", read_committed=True)]
        assert found == [b"v"] if words or side == "source" else set(found) == {b"v"}


def _identity(each: Any) -> tuple[Any, ...]:
    return each.partition, each.key, each.value, each.timestamp


def test_a_broker_that_goes_away_for_a_while(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(topics={"restarted": 1}) as source, Broker() as target:
        source.produce("restarted", b"1")
        rounds = itertools.count()

        def show(found: MirrorProgress) -> None:
            if next(rounds) == 3:
                target.restart()
                source.produce("restarted", b"2")
            if found.records == 2:
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(mirror, "_lines", lambda *_: show)
        assert _mirror(source, target) == 0
        assert [each.value for each in target.records("restarted")] == [b"1", b"2"]
    assert "the mirror connects again" in capsys.readouterr().err
