"""Waiting by the real clock."""

import asyncio

import pytest

from kafkapy.testing.errors import NotInTimeError
from kafkapy.testing.waiting import Deadline, until


def test_it_looks_until_there_is_something() -> None:
    seen = iter([None, None, 3])
    assert asyncio.run(until(lambda: next(seen), Deadline(10), lambda: "never")) == 3


def test_the_end_says_how_things_stand() -> None:
    with pytest.raises(NotInTimeError, match=r"^not within 0\.01 s: it is dark$"):
        asyncio.run(until(lambda: None, Deadline(0.01), lambda: "it is dark"))
