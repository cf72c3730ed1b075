"""The errors for which a connection is closed on purpose."""


class RefusedError(Exception):
    """The peer sent a request that can't be answered: the connection is closed, the error's text is logged."""


class UnservedRequestError(RefusedError):
    """An API key or version that this broker does not serve: Apache Kafka closes the connection too."""


class UnansweredFailureError(RefusedError):
    """A Produce with acks=0 failed: closing the connection is the only way to report it, as in Kafka."""


class UnencodableResponseError(Exception):
    """A handler's response can't be encoded in the request's version: a bug of kafkapy, not of the peer."""
