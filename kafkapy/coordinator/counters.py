"""What the coordinators count; the broker's metrics show it."""


class Counters:
    """Counters since the broker's start."""

    __slots__ = ("skipped_records", "refused_metadata")

    def __init__(self) -> None:
        self.skipped_records = 0
        """Records of ``__consumer_offsets`` and ``__transaction_state`` that could not be decoded while loading."""
        self.refused_metadata = 0
        """JoinGroup and SyncGroup requests that ``kafkapy.group.metadata.max.bytes`` refused."""
