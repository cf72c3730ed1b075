"""The root of every error that a client gets as a Kafka error code.

Each layer raises its own named errors (``records/errors.py``, ``storage/errors.py``); each class carries the
``protocol.errors.ErrorCode`` that goes on the wire, so that one place in the server can answer any of them.
"""

from typing import ClassVar


class BrokerError(Exception):
    """An operation failed with an error that has a code in Kafka's protocol.

    ``error_code`` is the wire code (-1, UNKNOWN_SERVER_ERROR, unless a subclass says otherwise); ``str(error)`` is
    the sentence that goes into ``error_message`` fields and the log.
    """

    error_code: ClassVar[int] = -1
