"""Clocks that tests move: ``ManualClock`` stands still in between, ``moving.MovingClock`` runs by itself."""

from kafkapy.testing.clock.manual import ManualClock

__all__ = ["ManualClock"]
