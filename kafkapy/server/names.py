"""Names as people write them, on a command line or in a test."""

from kafkapy.protocol.messages import APIS
from kafkapy.server.handlers import REGISTRY


def served_apis() -> dict[str, int]:
    """The APIs that clients may ask for, by Kafka's names."""
    return {APIS[api.key][1]: int(api.key) for api in REGISTRY.values() if not api.between_brokers}


def served_api(name: str) -> int | None:
    """The key of the API called ``name``, in any case and with or without underscores; None if it is not served."""
    return {known.lower(): key for known, key in served_apis().items()}.get(plain(name))


def plain(name: str) -> str:
    """An API's name without what people write differently."""
    return name.replace("_", "").lower()
