"""How a fenced producer is told so: older versions of the transaction APIs don't know the error (KIP-360)."""

from typing import Final

PRODUCER_FENCED: Final = 90
INVALID_PRODUCER_EPOCH: Final = 47


def fencing_code(error_code: int, version: int, first_version: int) -> int:
    """The error code as the request's version knows it; PRODUCER_FENCED came with ``first_version``."""
    return INVALID_PRODUCER_EPOCH if error_code == PRODUCER_FENCED and version < first_version else error_code
