"""Makes Python's names from Kafka's: modules, classes, attributes."""

import keyword
import re

from harness.definitions.model import Message, Versions

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ACRONYMS = {"KRaft": "Kraft", "ISR": "Isr"}
_LOCALS = {"cls", "self", "reader", "writer", "version", "tag", "end", "count", "unknown", "tagged", "field"}
"""Names that generated functions use themselves."""

_MODULES = {
    "ConsumerProtocol": ("consumer_protocol", ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")),
    "OffsetCommitStored": ("stored.offset_commit", ("OffsetCommitKey", "OffsetCommitValue")),
    "GroupMetadata": ("stored.group_metadata", ("GroupMetadataKey", "GroupMetadataValue")),
    "TransactionLog": ("stored.transaction_log", ("TransactionLogKey", "TransactionLogValue")),
    "DefaultPrincipal": ("default_principal", ("DefaultPrincipalData",)),
    "LeaderChange": ("leader_change", ("LeaderChangeMessage",)),
    "EndTxnMarker": ("end_txn_marker", ("EndTxnMarker", "ControlRecordTypeSchema")),
    "AbortedTxn": ("aborted_txn", ("AbortedTxn",)),
    "RaftRecords": (
        "raft_records",
        ("KRaftVersionRecord", "SnapshotHeaderRecord", "SnapshotFooterRecord", "VotersRecord"),
    ),
    "Headers": ("headers", ("RequestHeader", "ResponseHeader")),
}

_GROUP_PREFIXES = ("ConsumerGroup", "ShareGroup", "StreamsGroup")
"""Types of groups whose records have a module for each type."""


def snake_case(name: str) -> str:
    """`TransactionalId` → `transactional_id`."""
    for acronym, plain in _ACRONYMS.items():
        name = name.replace(acronym, plain)
    name = _WORD_BREAK.sub("_", name).lower()
    return f"{name}_" if keyword.iskeyword(name) else name


def local(attribute: str) -> str:
    """The attribute's local variable in a generated function."""
    return f"{attribute}_" if attribute in _LOCALS else attribute


def class_name(name: str) -> str:
    """The name with a capital first letter: `KRaftVersionRecord` stays as it is."""
    return name[0].upper() + name[1:]


def module_name(message: Message) -> str:
    """The dotted module below `kafkapy.protocol.messages`."""
    if message.api_key is not None:
        return snake_case(message.name.removesuffix("Request").removesuffix("Response"))
    for module, members in _MODULES.values():
        if message.name in members:
            return module
    for prefix in _GROUP_PREFIXES:
        if message.name.startswith(prefix):
            return f"stored.{snake_case(prefix)}"
    raise KeyError(f"no module is named for {message.name}")


def modules(messages: dict[str, Message]) -> dict[str, list[Message]]:
    """The messages of each module: request before response, key before value."""
    found: dict[str, list[Message]] = {}
    for message in messages.values():
        found.setdefault(module_name(message), []).append(message)
    order = {"Request": 0, "Key": 0}
    for members in found.values():
        members.sort(key=lambda message: (order.get(re.findall("[A-Z][a-z]+", message.name)[-1], 1), message.name))
        if all(message.name.startswith(_GROUP_PREFIXES) and not message.api_key for message in members):
            members.sort(key=lambda message: message.name)
    return dict(sorted(found.items()))


def class_names(messages: list[Message]) -> dict[str, dict[str, str]]:
    """For each message, its structs' class names; a name with two layouts gets the prefix Request or Response."""
    layouts: dict[str, set[str]] = {}
    for message in messages:
        for struct, versions in message.reachable():
            layouts.setdefault(struct.name, set()).add(_layout_key(message, struct.name, versions))
    found: dict[str, dict[str, str]] = {}
    for message in messages:
        found[message.name] = {}
        for struct, _ in message.reachable():
            clash = len(layouts[struct.name]) > 1
            prefix = _prefix(message) if clash else ""
            found[message.name][struct.name] = class_name(prefix + struct.name)
    return found


def _prefix(message: Message) -> str:
    return message.kind.capitalize() if message.api_key is not None else re.sub("(Key|Value)$", "", message.name)


def _layout_key(message: Message, name: str, versions: Versions) -> str:
    inner = [
        (member, _layout_key(message, member.element, member.versions) if member.is_struct else "")
        for member in message.structs[name].fields
    ]
    return repr((inner, versions, message.flexible))
