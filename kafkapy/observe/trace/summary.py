"""Summaries of messages for a trace: plain JSON values, without long or secret ones.

Fields with their default value are left out, except for ids and positions (``ALWAYS_SHOWN``). Records are counted
instead of shown; of other bytes only the number is shown.
Values of configuration keys that are passwords or unknown are hidden.
"""

import inspect
from typing import Any, Final
from uuid import UUID

from kafkapy.config.broker_keys import broker_key
from kafkapy.config.topic_keys import topic_key
from kafkapy.platform.files import FileSlice
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.records.batch import iterate_headers
from kafkapy.records.compression import CODEC_NAMES
from kafkapy.records.errors import RecordsError

MOST_VALUES: Final = 200
"""Values that one message may show."""
MOST_ITEMS: Final = 20
"""Items of one list."""
MOST_CHARACTERS: Final = 200
"""Characters of one string."""
LOOKED_THROUGH: Final = 1 << 20
"""Bytes of records whose batches are counted; of larger ones only the size is shown."""
ALWAYS_SHOWN: Final = frozenset(
    {
        "acks", "base_offset", "committed_offset", "fetch_offset", "generation_id", "high_watermark", "index",
        "leader_id", "node_id", "offset", "partition", "partition_index", "producer_epoch", "producer_id",
    }
)  # fmt: skip
HIDDEN: Final = "[hidden]"
MORE: Final = "more"


def summary(message: Message) -> dict[str, Any]:
    """The fields of a message that differ from a new one's, as JSON values."""
    return _Summary().of_message(message)


class _Summary:
    """The summary of one message; ``left`` is how many more values it may show."""

    def __init__(self) -> None:
        self.left = MOST_VALUES

    def of_message(self, message: Message) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        defaults = _defaults(type(message))
        for name in message.__slots__:
            value = getattr(message, name)
            if name == "unknown_tagged_fields" or (value == defaults.get(name) and name not in ALWAYS_SHOWN):
                continue
            if self.left <= 0:
                shown["…"] = MORE
                break
            self.left -= 1
            shown[name] = HIDDEN if name == "value" and _is_secret(message) else self._of_field(name, value)
        return shown

    def _of_field(self, name: str, value: Any) -> Any:
        if name == "records" and value is not None:
            return of_records(value)
        if name.endswith("error_code"):
            return _error_name(value)
        return self._of(value)

    def _of(self, value: Any) -> Any:
        if isinstance(value, Message):
            return self.of_message(value)
        if isinstance(value, list):
            return self._of_list(value)
        if isinstance(value, str):
            return value if len(value) <= MOST_CHARACTERS else f"{value[:MOST_CHARACTERS]}…"
        if isinstance(value, bytes | bytearray | memoryview):
            return f"<{len(value)} B>"
        return str(value) if isinstance(value, UUID) else value

    def _of_list(self, items: list[Any]) -> list[Any]:
        shown = []
        for item in items[:MOST_ITEMS]:
            if self.left <= 0:
                break
            self.left -= 1
            shown.append(self._of(item))
        if len(shown) < len(items):
            shown.append(f"… {len(items) - len(shown)} {MORE}")
        return shown


_known_defaults: Final[dict[str, dict[str, Any]]] = {}


def _defaults(kind: type[Message]) -> dict[str, Any]:
    """The fields of a new message; looked up once for each class."""
    name = f"{kind.__module__}.{kind.__name__}"
    if name not in _known_defaults:
        parameters = inspect.signature(kind.__init__).parameters
        _known_defaults[name] = {name: parameter.default for name, parameter in parameters.items()}
    return _known_defaults[name]


def _error_name(code: int) -> str:
    return ErrorCode(code).name if code in list(ErrorCode) else str(code)


def _is_secret(message: Message) -> bool:
    """Whether ``message`` is a configuration key with a value that must not be shown."""
    name = getattr(message, "name", None)
    if not isinstance(name, str):
        return False
    key = topic_key(name) or broker_key(name)
    return key is None or key.sensitive


def of_records(records: Any) -> dict[str, Any]:
    """The numbers of records, batches and bytes, and the compression."""
    size = len(records)
    if not size:
        return {"bytes": 0}
    if isinstance(records, FileSlice):
        records = records.read() if size <= LOOKED_THROUGH else None
    if not isinstance(records, bytes | bytearray | memoryview) or size > LOOKED_THROUGH:
        return {"bytes": size}
    count = batches = 0
    codecs = set()
    try:
        for _, header in iterate_headers(records):
            count, batches = count + header.record_count, batches + 1
            codecs.add(CODEC_NAMES[header.compression] if header.compression < len(CODEC_NAMES) else "unknown")
    except RecordsError as error:
        return {"bytes": size, "damaged": str(error)}
    return {"records": count, "batches": batches, "bytes": size, "compression": "+".join(sorted(codecs)) or "none"}


def has_error(shown: Any) -> bool:
    """Whether a summary has an error code."""
    if isinstance(shown, dict):
        return any(name.endswith("error_code") or has_error(value) for name, value in shown.items())
    return isinstance(shown, list) and any(has_error(item) for item in shown)
