"""Reads message definitions from Kafka's jars: removes comments and closes version ranges."""

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.definitions.model import Field, Message, Struct, Versions

_COMMENT = re.compile(r"^\s*//.*$|(?<=[\s,\]}])//[^\"\n]*$", re.MULTILINE)

_TWICE = ("LegacyOffsetCommitKey", "LegacyOffsetCommitValue")
"""Definitions of 4.0 and later whose bytes are versions of another message."""


def read_definitions(jar: Path, *, keep_unstable: bool) -> dict[str, Message]:
    """The messages that a jar defines, by name; a version marked unstable is included only with ``keep_unstable``."""
    raw = [json.loads(_COMMENT.sub("", text)) for text in _texts(jar)]
    unstable = {entry["apiKey"] for entry in raw if entry.get("latestVersionUnstable")} if not keep_unstable else set()
    messages = (_message(entry, unstable=entry.get("apiKey") in unstable) for entry in raw)
    return {message.name: message for message in messages if message.versions and message.name not in _TWICE}


def _texts(jar: Path) -> Iterator[str]:
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith("common/message/") and name.endswith(".json"):
                yield archive.read(name).decode()


def _message(raw: dict[str, Any], *, unstable: bool) -> Message:
    if raw["type"].startswith("coordinator-"):
        raw = _coordinator_record(raw)
    known = Versions.parse(raw["validVersions"], 0x7FFF)
    versions = Versions(known.low, known.high - 1) if unstable else known
    message = Message(
        name=raw["name"],
        kind=raw["type"],
        api_key=raw.get("apiKey"),
        versions=versions,
        flexible=Versions.parse(raw.get("flexibleVersions"), versions.high).intersect(versions),
    )
    _add_struct(message, raw["name"], raw.get("fields", []))
    for common in raw.get("commonStructs", []):
        _add_struct(message, common["name"], common["fields"])
    return message


def _coordinator_record(raw: dict[str, Any]) -> dict[str, Any]:
    """A record of a coordinator as releases before 4.0 define it: the version of a key is the type of its record."""
    record_type, fields = str(raw["apiKey"]), raw["fields"]
    common = {**raw, "type": "data", "apiKey": None}
    if raw["type"] == "coordinator-value":
        return common
    return {**common, "validVersions": record_type, "fields": [{**field, "versions": record_type} for field in fields]}


def _add_struct(message: Message, name: str, raw_fields: list[dict[str, Any]]) -> None:
    fields = [_field(message, raw) for raw in raw_fields]
    message.structs[name] = Struct(name, [entry for entry in fields if entry.versions])
    for raw in raw_fields:
        if raw.get("fields"):
            _add_struct(message, raw["type"].removeprefix("[]"), raw["fields"])


def _field(message: Message, raw: dict[str, Any]) -> Field:
    limit = message.versions.high
    versions = Versions.parse(raw.get("versions"), limit).intersect(message.versions)
    return Field(
        name=raw["name"],
        type=raw["type"],
        versions=versions,
        nullable=Versions.parse(raw.get("nullableVersions"), limit).intersect(versions),
        tagged=Versions.parse(raw.get("taggedVersions"), limit).intersect(versions),
        tag=raw.get("tag"),
        default=_default(raw.get("default")),
        ignorable=raw.get("ignorable") in (True, "true"),
        never_flexible=raw.get("flexibleVersions") == "none",
        entity=raw.get("entityType"),
    )


def _default(raw: object) -> str | None:
    if raw is None or raw == "":
        return None
    return str(raw).lower() if isinstance(raw, bool) else str(raw)
