"""The memory for large frames, and the order in which connections get it."""

import asyncio

import pytest

from kafkapy.network.budget import CHECK_MS, MOST_CHECKS, STALLED_CHECKS, FrameBudget, RequestMemory
from kafkapy.testing.clock import ManualClock


class Peer:
    """A connection whose frame is ``frame_size`` long."""

    def __init__(self, budget: FrameBudget, frame_size: int = 1000) -> None:
        self.budget = budget
        self.frame_size = frame_size
        self.received_size = 0
        self.granted = 0
        self.abandoned = False
        self.reason = ""
        self.wants = 0

    @property
    def missing_size(self) -> int:
        return self.frame_size - self.received_size

    def take(self, size: int) -> bool:
        self.wants = 0 if self.budget.take(self, size) else size
        return not self.wants

    def memory_granted(self) -> None:
        self.granted += 1
        self.take(self.wants)

    def is_abandoned(self) -> bool:
        return self.abandoned

    def give_up(self, reason: str) -> None:
        self.reason = reason
        self.budget.release(self)


def peers(count: int, limit: int = 100) -> tuple[ManualClock, FrameBudget, list[Peer]]:
    clock = ManualClock()
    budget = FrameBudget(clock, limit)
    return clock, budget, [Peer(budget) for _ in range(count)]


def test_only_one_connection_may_exceed_the_limit() -> None:
    _, budget, (first, second, third, fourth) = peers(4)
    assert first.take(80)
    assert second.take(500)  # does not fit: exempt
    assert budget.available == -480
    assert second.take(1000)
    assert not first.take(10)
    assert not third.take(10)
    budget.release(fourth)  # it holds nothing
    assert (first.granted, third.granted) == (0, 0)
    budget.release(second)
    assert (first.granted, third.granted) == (1, 1)
    assert budget.available == 0
    budget.release(first)
    budget.release(third)
    assert budget.available == 100


def test_the_connection_with_the_fewest_bytes_to_come_is_next() -> None:
    _, budget, (first, second, third, fourth) = peers(4)
    third.frame_size = 60
    assert first.take(100)
    assert second.take(100)
    assert not fourth.take(100)
    assert not third.take(50)
    budget.release(second)
    assert (third.wants, fourth.wants) == (0, 100)
    budget.release(third)
    assert fourth.wants == 0


def test_a_connection_that_is_closed_while_it_waits_is_forgotten() -> None:
    _, budget, (first, second, third) = peers(3)
    assert first.take(100)
    assert second.take(100)
    assert not third.take(50)
    budget.release(third)
    budget.release(second)
    assert third.granted == 0


def test_senders_that_stall_are_closed_while_others_wait() -> None:
    clock, budget, (stalled, exempt, waiting) = peers(3)
    assert stalled.take(100)
    clock.advance(100 * CHECK_MS)
    assert stalled.reason == ""  # no connection waits
    assert exempt.take(100)
    assert not waiting.take(50)
    for _ in range(STALLED_CHECKS):
        exempt.received_size += 1
        clock.advance(CHECK_MS)
        assert stalled.reason == ""
    clock.advance(CHECK_MS)
    assert "stalled" in stalled.reason
    assert (exempt.reason, waiting.reason, waiting.wants) == ("", "", 0)
    assert budget.given_up == 1


def test_slow_senders_are_closed_while_others_wait() -> None:
    clock, _, (slow, exempt, waiting) = peers(3)
    slow.frame_size = exempt.frame_size = 10_000
    assert slow.take(100)
    assert exempt.take(100)
    assert not waiting.take(50)
    for _ in range(MOST_CHECKS):
        assert slow.reason == exempt.reason == ""
        slow.received_size += 1
        exempt.received_size += 1
        clock.advance(CHECK_MS)
    assert "too slow" in slow.reason
    assert waiting.wants == 0


def test_a_stalled_connection_is_no_longer_exempt() -> None:
    clock, _, (first, exempt, waiting) = peers(3)
    assert first.take(100)
    assert exempt.take(100)
    assert not waiting.take(50)
    clock.advance(CHECK_MS)
    assert waiting.wants == 50
    first.received_size += 1
    clock.advance(CHECK_MS)
    assert waiting.wants == 0
    assert exempt.reason == ""


@pytest.mark.parametrize("holds", [0, 40])
def test_a_waiting_connection_whose_peer_has_closed_is_closed(holds: int) -> None:
    clock, budget, (first, exempt, gone) = peers(3)
    if holds:
        assert gone.take(holds)
    assert first.take(100 - holds)
    assert exempt.take(100)
    assert not gone.take(50)
    clock.advance(CHECK_MS)
    assert gone.reason == ""
    gone.abandoned = True
    clock.advance(CHECK_MS)
    assert "closed" in gone.reason
    assert budget.available == holds - 100
    clock.advance(100 * CHECK_MS)
    assert first.reason == ""


def test_requests_with_large_responses_wait_while_responses_are_not_read() -> None:
    async def scenario() -> None:
        clock, budget, (unread, read) = peers(2)
        await budget.admission()
        budget.charge(unread, 60)
        await budget.admission()
        budget.charge(read, 60)
        waiting = [asyncio.ensure_future(budget.admission()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting.pop().cancel()
        for _ in range(STALLED_CHECKS):
            clock.advance(CHECK_MS)
            read.received_size += 1
            await asyncio.sleep(0)
            assert not any(each.done() for each in waiting)
        clock.advance(CHECK_MS)
        for each in waiting:
            await each
        assert ("stalled" in unread.reason, read.reason) == (True, "")

    asyncio.run(scenario())


def test_a_complete_request_is_not_closed_however_long_it_takes() -> None:
    clock, _, (served, exempt, waiting) = peers(3)
    assert served.take(100)
    served.received_size = served.frame_size
    assert exempt.take(100)
    exempt.received_size = exempt.frame_size
    assert not waiting.take(50)
    clock.advance(CHECK_MS)
    assert waiting.wants == 0  # a request that is being served is no longer exempt
    clock.advance(2 * MOST_CHECKS * CHECK_MS)
    assert served.reason == exempt.reason == ""


def test_held_requests_end_their_waiting_while_others_need_memory() -> None:
    async def main() -> None:
        clock, budget, (reader, _) = peers(2)
        asked: list[str] = []
        budget.relieve = lambda: asked.append("relieve")
        with RequestMemory(budget) as silent, RequestMemory(budget, lambda: asked.append("end")) as waiting:
            silent.charge(60)
            waiting.charge(30)
            waiting.charge(10)
            clock.advance(100 * CHECK_MS)
            assert (budget.available, asked) == (0, [])
            assert reader.take(50)
            budget.release(reader)
            admission = asyncio.ensure_future(budget.admission())
            await asyncio.sleep(0)
            for seconds in range(1, 3 * MOST_CHECKS):
                clock.advance(CHECK_MS)
                assert asked == ["relieve", "end"] * seconds
            assert not admission.done()
            waiting.release()
            await admission
            assert budget.available == 40
        assert (budget.available, budget.given_up) == (100, 0)

    asyncio.run(main())
