"""Waiting by the machine's clock."""

import asyncio

import pytest

from kafkapy.testing.errors import NotInTimeError
from kafkapy.testing.loop.waiting import Deadline, until


def test_until_returns_the_first_result() -> None:
    seen = iter([None, None, 3])
    assert asyncio.run(until(lambda: next(seen), Deadline(10), lambda: "never")) == 3


def test_a_timed_out_wait_has_the_given_text() -> None:
    with pytest.raises(NotInTimeError, match=r"^not within 0\.01 s: it is dark$"):
        asyncio.run(until(lambda: None, Deadline(0.01), lambda: "it is dark"))
