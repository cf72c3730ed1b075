"""Why a connection is closed on purpose."""


class RefusedError(Exception):
    """The peer sent what can't be answered; the sentence goes into the log, the connection is closed."""


class UnservedRequestError(RefusedError):
    """An API key or version that this broker does not serve: Apache Kafka closes the connection too."""


class UnansweredFailureError(RefusedError):
    """A Produce with acks=0 failed: closing the connection is the only way to say so, and Kafka's."""


class UnencodableResponseError(Exception):
    """A handler's response has no form in the request's version: a bug of ours, not of the peer."""
