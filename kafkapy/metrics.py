"""The broker's counters: plain numbers, since each count should cost only an addition."""

from collections import defaultdict
from typing import Final

PEER_LINES_A_SECOND: Final = 100
"""Log lines that clients may cause each second. One client can cause 10,000, which would fill a disk."""
SASL_LINE_INTERVAL_S: Final = 60
MOST_SASL_ADDRESSES: Final = 1_000
"""Addresses that are remembered; an address that was forgotten may get another line."""


class Counters:
    """The coordinators' counters since the broker's start."""

    __slots__ = ("skipped_records", "refused_metadata")

    def __init__(self) -> None:
        self.skipped_records = 0
        """Records of ``__consumer_offsets`` and ``__transaction_state`` that could not be decoded while loading."""
        self.refused_metadata = 0
        """JoinGroup and SyncGroup requests that ``kafkapy.group.metadata.max.bytes`` refused."""


class PeerLines:
    """Limits the log lines about refused requests and connections that end, of all clients together."""

    __slots__ = ("left_out", "_second_ends_s", "_left")

    def __init__(self) -> None:
        self.left_out = 0
        """Lines that were not logged; their number is reported once a minute."""
        self._second_ends_s = 0.0
        self._left = 0

    def may_log(self, now_s: float) -> bool:
        """Whether another line may be logged at ``now_s`` of a clock that never goes back; else it is counted."""
        if now_s >= self._second_ends_s:
            self._second_ends_s = now_s + 1
            self._left = PEER_LINES_A_SECOND
        if not self._left:
            self.left_out += 1
            return False
        self._left -= 1
        return True


class SaslLines:
    """Limits the log lines about clients that want SASL: one for each address and minute."""

    __slots__ = ("_until_s",)

    def __init__(self) -> None:
        self._until_s: dict[str, float] = {}

    def may_log(self, address: str, now_s: float) -> bool:
        """Whether a line about a client at ``address`` may be logged at ``now_s``."""
        if now_s < self._until_s.get(address, now_s):
            return False
        self._until_s.pop(address, None)  # the dictionary is in the order of the lines
        self._until_s[address] = now_s + SASL_LINE_INTERVAL_S
        if len(self._until_s) > MOST_SASL_ADDRESSES:
            del self._until_s[next(iter(self._until_s))]
        return True


class Metrics:
    """Counters since the broker's start; ``requests`` by handler name."""

    __slots__ = (
        "requests", "connections_accepted", "connections_refused", "connections_failed", "idle_closed",
        "topics_refused_by_replica_limit", "automatic_topics_delayed", "coordinators", "producers_evicted",
        "peer_lines", "sasl_lines", "audit_lines",
    )  # fmt: skip

    def __init__(self) -> None:
        self.requests: defaultdict[str, int] = defaultdict(int)  # a Counter takes 70 ns longer for each request
        self.connections_accepted = 0
        self.connections_refused = 0
        """Connections that a connection limit refused."""
        self.connections_failed = 0
        """Connections that the broker closed because of invalid bytes of the peer, or because a handler failed."""
        self.idle_closed = 0
        """Connections that were closed because nothing moved for ``connections.max.idle.ms``."""
        self.topics_refused_by_replica_limit = 0
        """Topics not created or extended because of ``kafkapy.max.replicas``."""
        self.automatic_topics_delayed = 0
        """Topics not created yet because of ``kafkapy.auto.create.topics.per.second``."""
        self.coordinators = Counters()
        self.peer_lines = PeerLines()
        self.sasl_lines = SaslLines()
        self.audit_lines = PeerLines()
        """The lines of the audit log, about operations that were denied."""
        self.producers_evicted = 0
        """Producer ids that a partition forgot because it knew ``kafkapy.producer.ids.max`` of them."""

    def request_count(self) -> int:
        """Return the number of all requests."""
        return sum(self.requests.values())

    def producer_evicted(self) -> None:
        """Count a producer id that was forgotten before it expired."""
        self.producers_evicted += 1
