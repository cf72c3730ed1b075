"""Values of request fields that Kafka's definitions do not name; brokers and clients share them."""

from enum import IntEnum
from typing import Final

LATEST: Final = -1
"""A timestamp of ListOffsets: the end of the log."""
EARLIEST: Final = -2
"""A timestamp of ListOffsets: the log start offset."""
EARLIEST_LOCAL: Final = -4
"""A timestamp of ListOffsets 8: the first offset that the broker itself has, not only tiered storage (KIP-405)."""

GROUP_KEY: Final = 0
"""A key type of FindCoordinator: the id of a consumer group."""
TRANSACTIONAL_ID_KEY: Final = 1
"""A key type of FindCoordinator: a transactional id."""


class ResourceType(IntEnum):
    """The kinds of resources that have a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
