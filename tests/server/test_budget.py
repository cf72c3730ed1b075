"""Large frames and their share of the memory."""

from collections.abc import Callable

from kafkapy.server.budget import FrameBudget


def _never() -> None:
    raise AssertionError("who was let in is not woken")


def test_one_goes_on_beyond_the_limit_and_the_others_wait_in_order() -> None:
    budget = FrameBudget(100)
    woken: list[str] = []

    def waker(name: str) -> Callable[[], None]:
        return lambda: woken.append(name)

    assert budget.take("a", 80, _never)
    assert budget.take("b", 500, _never)
    assert budget.available == -480
    assert budget.take("a", 10, _never)  # nothing is left: the first to ask may finish
    assert budget.take("a", 1000, _never)
    for name in ("b", "c"):
        assert not budget.take(name, 10, waker(name))
    budget.give_back("b", 500)
    assert woken == []
    budget.give_back("a", 1090)
    assert woken == ["b", "c"]
    assert budget.available == 100


def test_the_next_one_may_finish_when_the_memory_is_still_taken() -> None:
    budget = FrameBudget(100)
    woken: list[str] = []

    def again(name: str) -> Callable[[], None]:
        def retry() -> None:
            woken.append(name)
            assert budget.take(name, 50, _never)

        return retry

    assert budget.take("a", 200, _never)
    assert budget.take("b", 100, _never)
    assert not budget.take("c", 50, again("c"))
    assert not budget.take("d", 50, again("d"))
    budget.give_back("b", 100)
    assert (woken, budget.available) == (["c"], -150)
    budget.give_back("a", 200)
    assert woken == ["c", "d"]


def test_who_is_gone_when_woken_does_not_stop_the_others() -> None:
    budget = FrameBudget(10)
    woken: list[str] = []
    assert budget.take("a", 20, _never)
    assert budget.take("b", 20, _never)
    assert not budget.take("gone", 20, lambda: woken.append("gone"))
    assert not budget.take("c", 20, lambda: woken.append("c"))
    budget.give_back("b", 20)
    assert woken == ["gone", "c"]
