"""The merged definitions in a compact form of this project: one JSON file per module, one line per field.

`make check` generates the code again from these files, without Java or network.
"""

import json
from pathlib import Path
from typing import Any

from harness.definitions.model import Field, Message, Struct, Versions

DIRECTORY = Path(__file__).resolve().parents[2] / "tools" / "codegen" / "definitions"


def dump(message: Message) -> str:
    """The text of a message's file."""
    head = {
        "name": message.name,
        "kind": message.kind,
        "apiKey": message.api_key,
        "versions": f"{message.versions.low}-{message.versions.high}",
        "flexible": message.flexible.text(message.versions.high),
    }
    lines = [json.dumps(head)[:-1] + ', "structs": {']
    used = {struct.name for struct, _ in message.reachable()}
    structs = [struct for struct in message.structs.values() if struct.name in used]
    for index, struct in enumerate(structs):
        lines.append(f'  "{struct.name}": [')
        fields = [f"    {json.dumps(_field_out(entry, message.versions.high))}" for entry in struct.fields]
        lines.append(",\n".join(fields))
        lines.append("  ]" if index == len(structs) - 1 else "  ],")
    lines.append("}}")
    return "\n".join(line for line in lines if line) + "\n"


def _field_out(entry: Field, limit: int) -> dict[str, Any]:
    out: dict[str, Any] = {"name": entry.name, "type": entry.type, "versions": entry.versions.text(limit)}
    if entry.nullable:
        out["nullable"] = entry.nullable.text(limit)
    if entry.tagged:
        out["tagged"] = entry.tagged.text(limit)
        out["tag"] = entry.tag
    if entry.default is not None:
        out["default"] = entry.default
    if entry.ignorable:
        out["ignorable"] = True
    if entry.never_flexible:
        out["neverFlexible"] = True
    if entry.entity:
        out["entity"] = entry.entity
    return out


def load(text: str) -> Message:
    """The message that `dump` wrote."""
    raw = json.loads(text)
    versions = Versions.parse(raw["versions"], 0x7FFF)
    limit = versions.high
    message = Message(raw["name"], raw["kind"], raw["apiKey"], versions, Versions.parse(raw["flexible"], limit))
    for name, fields in raw["structs"].items():
        message.structs[name] = Struct(name, [_field_in(entry, limit) for entry in fields])
    return message


def _field_in(raw: dict[str, Any], limit: int) -> Field:
    return Field(
        name=raw["name"],
        type=raw["type"],
        versions=Versions.parse(raw["versions"], limit),
        nullable=Versions.parse(raw.get("nullable"), limit),
        tagged=Versions.parse(raw.get("tagged"), limit),
        tag=raw.get("tag"),
        default=raw.get("default"),
        ignorable=raw.get("ignorable", False),
        never_flexible=raw.get("neverFlexible", False),
        entity=raw.get("entity"),
    )


def load_all(directory: Path = DIRECTORY) -> dict[str, Message]:
    """All messages by name."""
    messages = (load(path.read_text()) for path in sorted(directory.glob("*.json")))
    return {message.name: message for message in messages}


def dump_all(messages: dict[str, Message], directory: Path = DIRECTORY) -> None:
    """Write one file per message and remove those that are gone."""
    directory.mkdir(exist_ok=True)
    for path in directory.glob("*.json"):
        if path.stem not in messages:
            path.unlink()
    for message in messages.values():
        (directory / f"{message.name}.json").write_text(dump(message))
