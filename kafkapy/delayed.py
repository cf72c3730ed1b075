"""Requests that wait: for acknowledgements, for bytes, for a high watermark (purgatories in Apache Kafka).

An operation waits under one or more keys (topic partitions). Code that changes the state of a key calls ``check(key)``,
which lets the operation try to finish. When its time is over the operation must finish with any result. Waiting costs
one timer on the ``Clock`` and no task; ``check`` of a key without operations is one dictionary lookup.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from kafkapy.clock import Clock, TimerHandle

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)


class Delayed(asyncio.Future[T]):
    """A future that can be hurried: ``hurry`` ends the waiting now, with the result that is possible then.

    Cancelling the future ends the waiting. (A callback for it would cost 3 µs at each end of a waiting.)
    """

    held_size = 0
    """Bytes that the waiting takes, if they are many."""
    operation: "_Waiting | None" = None
    """A request or other waiter in a purgatory, until the future is done."""
    waited_for: "Delayed[Any] | None" = None
    """Another future, on which this one depends, and which is hurried in its place."""

    @property
    def can_be_hurried(self) -> bool:
        """Whether ``hurry`` ends the waiting."""
        operation, other = self.operation, self.waited_for
        return (operation is not None and operation.can_be_hurried) or (other is not None and other.can_be_hurried)

    def hurry(self) -> None:
        """End the waiting now, if it can be."""
        operation, other = self.operation, self.waited_for
        if operation is not None and operation.can_be_hurried:
            operation.purgatory.expire(operation)
        elif other is not None:
            other.hurry()

    def cancel(self, msg: object = None) -> bool:
        """See ``asyncio.Future.cancel``; the waiting ends at once."""
        operation = self.operation
        if operation is not None:
            operation.purgatory.forget(operation)
        return super().cancel(msg)

    @classmethod
    def of(cls, task: "asyncio.Task[T]", waited_for: object) -> "Delayed[T]":
        """A future of the result of ``task``, ``hurry`` is that of ``waited_for``; cancelling it cancels the task."""
        future = cls()
        if isinstance(waited_for, Delayed):
            future.waited_for, future.held_size = waited_for, waited_for.held_size

        def pass_on(_: object) -> None:
            if future.done() or task.cancelled():
                future.cancel()
            elif (error := task.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(task.result())

        task.add_done_callback(pass_on)
        future.add_done_callback(lambda _: task.cancel())  # does nothing if the task is done
        return future


def hurry(future: object) -> None:
    """Hurry ``future`` if it can be."""
    if isinstance(future, Delayed):
        future.hurry()


class _Waiting:
    """One operation that is not finished."""

    __slots__ = ("purgatory", "keys", "attempt", "future", "timer", "can_be_hurried")

    def __init__(
        self, purgatory: "Purgatory[Any]", attempt: Callable[[Any], Any], future: Delayed[Any], can_be_hurried: bool
    ) -> None:
        self.purgatory = purgatory
        self.keys: list[Hashable] = []
        self.can_be_hurried = can_be_hurried
        self.attempt = attempt
        self.future = future
        self.timer: TimerHandle | None = None


class Purgatory(Generic[Key]):
    """The operations that wait for a change of some keys."""

    __slots__ = ("_clock", "_waiting", "_watches")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[Hashable, dict[_Waiting, None]] = {}
        self._watches: dict[Hashable, dict[Callable[[Any], None], None]] = {}

    def __len__(self) -> int:
        return len({operation for operations in self._waiting.values() for operation in operations})

    def wait(
        self,
        keys: Iterable[Key],
        attempt: Callable[[Key | None], T | None],
        timeout_ms: float,
        *,
        can_be_hurried: bool = True,
    ) -> Delayed[T]:
        """Return a future of the first result of ``attempt`` that is not None.

        ``attempt(key)`` is called at each ``check(key)``; ``attempt(None)`` when ``timeout_ms`` have passed or the
        broker stops, or the future is hurried: it must return a result then. Cancelling the future ends the waiting.
        """
        future: Delayed[T] = Delayed()
        future.operation = operation = _Waiting(self, attempt, future, can_be_hurried)
        operation.timer = self._clock.call_later(timeout_ms, self.expire, operation)
        self.add(future, keys)
        return future

    def add(self, future: Delayed[T], keys: Iterable[Key]) -> None:
        """Let an operation that waits, whose future ``wait`` returned, wait for more keys."""
        operation = future.operation
        assert operation is not None, "the future is one of a purgatory"
        waiting = self._waiting
        for key in keys:
            operation.keys.append(key)
            waiting.setdefault(key, {})[operation] = None

    def check(self, key: Key) -> None:
        """Let the operations that wait for ``key`` try to finish, and call those who watch it."""
        if self._watches and key in self._watches:  # a key's hash is computed each time
            for notify in tuple(self._watches[key]):
                notify(key)
        operations = self._waiting.get(key) if self._waiting else None
        if operations is None:
            return
        for operation in tuple(operations):
            if operation.future.done():
                continue
            result = operation.attempt(key)
            if result is not None:
                self._finish(operation, result)

    def watch(self, key: Key, notify: Callable[[Key], None]) -> None:
        """Call ``notify(key)`` at each ``check(key)`` from now on; it must not raise."""
        self._watches.setdefault(key, {})[notify] = None

    def unwatch(self, key: Key, notify: Callable[[Key], None]) -> None:
        """Call ``notify`` no more for ``key``."""
        watches = self._watches.get(key)
        if watches is not None:
            watches.pop(notify, None)
            if not watches:
                del self._watches[key]

    def expire_all(self) -> None:
        """Finish all operations now, as if their time were over: the broker stops."""
        for operations in tuple(self._waiting.values()):
            for operation in tuple(operations):
                self.expire(operation)

    def expire(self, operation: _Waiting) -> None:
        """Finish an operation now, as if its time were over."""
        if operation.future.done():
            return
        result = operation.attempt(None)
        assert result is not None, "an operation whose time is over must give a result"
        self._finish(operation, result)

    def _finish(self, operation: _Waiting, result: object) -> None:
        if not operation.future.done():  # an attempt may have changed the key itself, as a follower's fetch does
            operation.future.set_result(result)
            self.forget(operation)

    def forget(self, operation: _Waiting) -> None:
        """End the waiting of an operation, which is finished or not wanted any more."""
        if operation.timer is not None:
            operation.timer.cancel()
            operation.timer = None
        operation.future.operation = None
        for key in operation.keys:
            operations = self._waiting.get(key)
            if operations is not None:
                operations.pop(operation, None)
                if not operations:
                    del self._waiting[key]
