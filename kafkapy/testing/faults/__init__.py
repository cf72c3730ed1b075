"""Faults on the wire between clients and a broker, set by a test; ``Faults`` has those of one broker."""

from kafkapy.testing.faults.expired_members import UnknownMemberError
from kafkapy.testing.faults.faults import Faults
from kafkapy.testing.faults.rules import InvalidFaultError, Match, Rule

__all__ = ["Faults", "InvalidFaultError", "Match", "Rule", "UnknownMemberError"]
