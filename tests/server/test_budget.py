"""Large frames and their share of the memory."""

from kafkapy.server.budget import FrameBudget


def test_who_begins_can_finish_and_the_others_wait_in_order() -> None:
    budget = FrameBudget(100)
    woken: list[str] = []
    assert budget.take(80, lambda: woken.append("never"))
    assert budget.take(500, lambda: woken.append("never"))
    assert budget.available == -480
    for name in ("first", "second"):
        assert not budget.take(10, lambda name=name: woken.append(name))  # type: ignore[misc]  # binds the name
    budget.give_back(80)
    assert woken == []
    budget.give_back(500)
    assert woken == ["first", "second"]
    assert budget.available == 100


def test_waking_stops_when_the_memory_is_taken_again() -> None:
    budget = FrameBudget(100)
    woken: list[str] = []

    def first() -> None:
        woken.append("first")
        assert budget.take(300, first)

    assert budget.take(100, first)
    assert not budget.take(300, first)
    assert not budget.take(1, lambda: woken.append("second"))
    budget.give_back(100)
    assert woken == ["first"]
    budget.give_back(300)
    assert woken == ["first", "second"]
