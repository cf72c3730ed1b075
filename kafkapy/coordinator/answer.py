"""What the coordinator will say, now or later.

The state machines answer most requests at once and some only when other members have moved (JoinGroup, SyncGroup) or
the log has the records. An ``Answer`` is that value without an event loop: pure code sets it, ``runtime`` turns the
ones that are not set yet into futures.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Answer(Generic[T]):
    """A value that is set exactly once; one callback learns of it."""

    __slots__ = ("_value", "_callback", "is_set")

    def __init__(self) -> None:
        self._value: T | None = None
        self._callback: Callable[[T], None] | None = None
        self.is_set = False

    @classmethod
    def of(cls, value: T) -> "Answer[T]":
        """An answer that is already there."""
        answer = cls()
        answer._value = value
        answer.is_set = True
        return answer

    @property
    def value(self) -> T:
        """The value; asking before it is set is a mistake of the caller."""
        assert self.is_set
        return self._value  # type: ignore[return-value]  # set() stored a T: None is only there before

    def set(self, value: T) -> None:
        """Give the answer; a second one would be a request that is answered twice."""
        assert not self.is_set
        self._value = value
        self.is_set = True
        if self._callback is not None:
            self._callback(value)

    def on_set(self, callback: Callable[[T], None]) -> None:
        """Call ``callback(value)``: at once when the answer is there, else when it is set."""
        if self.is_set:
            callback(self.value)
        else:
            assert self._callback is None
            self._callback = callback
