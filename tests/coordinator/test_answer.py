import pytest

from kafkapy.coordinator.answer import Answer


def test_a_set_answer_calls_back_at_once() -> None:
    seen: list[int] = []
    answer = Answer.of(3)
    answer.on_set(seen.append)
    assert (answer.is_set, answer.value, seen) == (True, 3, [3])


def test_a_later_answer_calls_back_when_it_is_set() -> None:
    seen: list[int] = []
    answer: Answer[int] = Answer()
    answer.on_set(seen.append)
    assert not answer.is_set
    answer.set(4)
    assert seen == [4]


def test_an_answer_without_callback_keeps_its_value() -> None:
    answer: Answer[int] = Answer()
    answer.set(5)
    assert answer.value == 5


def test_an_answer_is_set_once_and_has_one_callback() -> None:
    answer: Answer[int] = Answer()
    answer.on_set(print)
    with pytest.raises(AssertionError):
        answer.on_set(print)
    with pytest.raises(AttributeError):
        _ = answer.value
    answer.set(1)
    with pytest.raises(AssertionError):
        answer.set(2)
