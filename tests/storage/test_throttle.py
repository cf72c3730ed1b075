"""The limit of bytes per second, on a clock of the test."""

from functools import partial

from kafkapy.storage.compaction.compaction import Throttle


def test_work_that_is_too_fast_waits_every_third_of_a_second() -> None:
    now = [100.0]
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(round(seconds, 3))
        now[0] += seconds

    throttle = Throttle(1000, lambda: now[0], wait)
    throttle.worked(400)
    assert waits == []
    now[0] += 0.4
    throttle.worked(200)
    assert waits == [0.2], "600 bytes take 0.6 s"
    now[0] += 1
    throttle.worked(900)
    assert waits == [0.2], "slow enough by itself"
    now[0] += 0.5
    throttle.worked(2000)
    assert waits == [0.2, 1.5]


def test_a_very_low_rate_does_not_wait_for_ever() -> None:
    for rate in (0.0, 5e-324, 1e-300):
        now = iter([0.0, 1.0, 1.0])
        waits: list[float] = []
        Throttle(rate, partial(next, now), waits.append).worked(2**60)
        assert waits == [86_400.0]
