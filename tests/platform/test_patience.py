"""The change of the work between the two threads; ``test_worker_pool`` has real threads."""

import threading
from collections.abc import Callable

import pytest

from kafkapy.clock import SystemClock
from kafkapy.platform.patience import NICE_S, IdleRunner, Steps
from kafkapy.platform.portable import ThreadTimes, sched_idle_unsupported

MS = 1_000_000


class Machine(SystemClock):
    """A clock, and an idle thread whose every step takes ``ran_ns`` after a wait of ``waited_ns``."""

    __slots__ = ("looks", "now_s", "ran_ns", "waited_ns")

    def __init__(self, ran_ns: int = MS, waited_ns: int = 0) -> None:
        self.now_s = 100.0
        self.ran_ns, self.waited_ns = ran_ns, waited_ns
        self.looks = 0

    def become_idle(self) -> ThreadTimes | None:
        return self._times

    def monotonic_s(self) -> float:
        return self.now_s

    def _times(self) -> tuple[int, int]:
        self.looks += 1
        return self.looks * self.ran_ns, self.looks * self.waited_ns

    def runner(self) -> IdleRunner:
        return IdleRunner(self.become_idle, self)


def _steps(count: int, before_each: Callable[[int], object] = lambda _: None) -> Steps[list[bool]]:
    """``count`` steps, whose result says for each whether the nice thread did it."""
    done: list[bool] = []
    for number in range(count):
        before_each(number)
        done.append(threading.current_thread() is threading.main_thread())
        yield
    return done


def test_the_idle_thread_does_all_steps_while_it_gets_its_share() -> None:
    machine = Machine(ran_ns=60 * MS, waited_ns=120 * MS)
    runner = machine.runner()
    assert runner.run(_steps(20)) == [False] * 20
    assert runner.run(_steps(1)) == [False]


def test_without_an_idle_thread_the_nice_one_does_all_steps() -> None:
    runner = IdleRunner(sched_idle_unsupported)
    assert runner.run(_steps(3)) == [True] * 3
    assert runner.run(_steps(1)) == [True]


def test_the_nice_thread_takes_over_when_the_idle_one_gets_no_processor() -> None:
    machine = Machine(ran_ns=60 * MS, waited_ns=121 * MS)
    times = [0.0, 0.0, 0.0, NICE_S / 2, NICE_S / 2, 0.0, 0.0, 0.0]

    def pass_time(number: int) -> None:
        machine.now_s += times[number]

    runner = machine.runner()
    # It takes three steps to fill a window. That in which the time is over is the other thread's still.
    assert runner.run(_steps(8, pass_time)) == [False] * 3 + [True] * 2 + [False] * 3
    # The next work finds that the first has just starved again.
    assert runner.run(_steps(2)) == [True] * 2


@pytest.mark.parametrize("become_idle", [Machine().become_idle, sched_idle_unsupported], ids=["idle", "nice"])
def test_an_exception_of_a_step_is_raised_and_the_next_work_is_done(
    become_idle: Callable[[], ThreadTimes | None],
) -> None:
    def refuse(number: int) -> None:
        if number == 2:
            raise OSError(28, "refused")

    runner = IdleRunner(become_idle)
    with pytest.raises(OSError, match="refused"):
        runner.run(_steps(5, refuse))
    assert len(runner.run(_steps(2))) == 2
