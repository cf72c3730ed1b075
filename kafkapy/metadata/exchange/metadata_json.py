"""The metadata as a JSON document that people can read, keep and edit.

``{"format": "kafkapy-metadata", "version": 1, "broker_id_sequence": 0, "nodes": {path: data}}`` with the data as JSON
where the node holds a JSON object, null where it holds nothing, a string where it is other text, and
``{"base64": "…"}`` where it is not text.
"""

import base64
import json
from binascii import Error as Base64Error
from typing import Any, Final

from kafkapy.metadata.exchange.metadata_tree import MetadataError, MetadataTree, is_carried
from kafkapy.metadata.znodes import encode_json
from kafkapy.text import printable_json

FORMAT: Final = "kafkapy-metadata"
VERSION: Final = 1
_BASE64: Final = "base64"


def encode_document(tree: MetadataTree) -> bytes:
    """The document, indented, paths in order."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "broker_id_sequence": tree.broker_id_sequence,
        "nodes": {path: _shown(tree.nodes[path]) for path in sorted(tree.nodes)},
    }
    return (printable_json(document, indent=1) + "\n").encode()


def _shown(data: bytes | None) -> Any:
    if not data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(data).decode()}
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def decode_document(content: bytes, where: str) -> MetadataTree:
    """The tree of a document; raises MetadataError, which names ``where``, if the content is no such document."""
    try:
        document = json.loads(content)
    except ValueError as error:
        raise MetadataError(f"{where} is no JSON document: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise MetadataError(f"{where} is no metadata document of kafkapy: make one with kafkapy metadata export --file")
    if document.get("version") != VERSION:
        raise MetadataError(f"{where} has version {document.get('version')!r}; this kafkapy reads version {VERSION}")
    nodes, sequence = document.get("nodes"), document.get("broker_id_sequence", 0)
    if not isinstance(nodes, dict) or not isinstance(sequence, int) or sequence < 0:
        raise MetadataError(f"{where} lacks its nodes, or its broker_id_sequence is no count")
    strange = [path for path in nodes if not is_carried(path)]
    if strange:
        raise MetadataError(f"{where}: {strange[0]} is no part of a cluster's lasting metadata; remove it")
    return MetadataTree({path: _stored(value, where, path) for path, value in nodes.items()}, sequence)


def _stored(value: Any, where: str, path: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict):
        raise MetadataError(f"{where}: {path} holds a {type(value).__name__}, not an object, a text or null")
    if value.keys() == {_BASE64}:
        try:
            return base64.b64decode(str(value[_BASE64]), validate=True)
        except Base64Error as error:
            raise MetadataError(f"{where}: {path} is no base64: {error}") from error
    return encode_json(value)
