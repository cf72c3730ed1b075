"""A broker that is killed between any two steps of a transaction: aborted records stay hidden, committed ones are kept.

The tests kill the broker, so each starts its own kafkapy, independent of `--target`.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat_tests.groups.wire import Wire, find_coordinator
from compat_tests.transactions.talk import Producer, Talk
from harness.kafkapy_process import KafkapyProcess

SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


class Mortal:
    """A broker, and a client that goes on with it after each end."""

    def __init__(self, process: KafkapyProcess) -> None:
        self.process = process
        self._stack = ExitStack()
        self.talk = Talk(self._connect(), "mortal")
        find_coordinator(self.talk.wire, self.talk.group)

    def _connect(self) -> Wire:
        return self._stack.enter_context(Wire(self.process.bootstrap))

    def die(self) -> None:
        """The process is killed, and started again."""
        self.process.kill()
        self._stack.close()
        self.process.start()
        self.talk.wire = self._connect()
        self.talk.settled(self.talk.coordinator)
        find_coordinator(self.talk.wire, self.talk.group)

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Mortal]:
    with KafkapyProcess(directory=tmp_path / "broker", config=SETTINGS) as process:
        client = Mortal(process)
        yield client
        client.close()


STEPS = ("begin", "write", "add_offsets", "commit_offset", "end")


def _step(talk: Talk, producer: Producer, step: str, number: int, *, commit: bool) -> None:
    if step == "begin":
        code = talk.settled(lambda: talk.add(producer)[0])
    elif step == "write":
        code = talk.write(producer, number, f"{number}".encode())
    elif step == "add_offsets":
        code = talk.add_offsets(producer)
    elif step == "commit_offset":
        code = talk.commit_offset(producer, number)
    else:
        code = talk.end(producer, commit)
    assert code == 0, (step, code)


def test_a_producer_continues_after_a_kill_at_each_step(mortal: Mortal) -> None:
    talk = mortal.talk
    producer = talk.producer()
    seen: list[str] = []
    offset = -1
    for number, deadly in enumerate((*STEPS, *STEPS)):
        commit = number % 3 != 1
        for step in STEPS:
            _step(talk, producer, step, number, commit=commit)
            if step == deadly:
                mortal.die()
        if commit:
            seen.append(str(number))
            offset = number
        assert talk.end(producer, commit) == 0  # asked again
        assert talk.seen() == seen
        assert talk.committed(7, stable=True) == (0, offset)
        first, last = talk.ends()
        assert first == last


@pytest.mark.parametrize("deadly", STEPS[:-1])
def test_a_new_producer_sees_no_partial_transaction_after_a_kill(mortal: Mortal, deadly: str) -> None:
    talk = mortal.talk
    producer = talk.producer()
    for step in STEPS[: STEPS.index(deadly) + 1]:
        _step(talk, producer, step, 0, commit=True)
    mortal.die()
    successor = talk.producer()
    assert successor[1] == producer[1] + 2  # one epoch to fence the first, one for the second
    assert talk.end(producer) == 90
    assert (talk.seen(), talk.committed(7, stable=True)) == ([], (0, -1))
    for step in STEPS:
        _step(talk, successor, step, 0, commit=True)
    assert (talk.seen(), talk.committed(7, stable=True)) == (["0"], (0, 0))


def test_an_open_transaction_times_out_after_the_restart(mortal: Mortal) -> None:
    talk = mortal.talk
    producer = talk.producer(timeout_ms=1_000)
    for step in STEPS[:-1]:
        _step(talk, producer, step, 0, commit=True)
    mortal.die()
    while talk.ends()[0] != talk.ends()[1]:
        talk.wire.has_answer(0.1)
    assert (talk.seen(), talk.aborted(), talk.end(producer)) == ([], [0], 90)
