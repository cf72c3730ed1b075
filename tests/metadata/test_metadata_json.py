import json

import pytest

from kafkapy.metadata.exchange.metadata_json import decode_document, encode_document
from kafkapy.metadata.exchange.metadata_tree import MetadataError, MetadataTree
from tests.metadata.metadata_samples import tree


def test_a_document_is_decoded_to_its_tree() -> None:
    odd = {"/consumers/text": b"plain text", "/consumers/number": b"12", "/consumers/raw": b"\xff\x00"}
    there = MetadataTree({**tree().nodes, **odd}, 4)
    document = encode_document(there)
    assert decode_document(document, "it") == there
    nodes = json.loads(document)["nodes"]
    assert nodes["/brokers/topics/flights"]["partitions"] == {"0": [1], "1": [1]}
    assert (nodes["/consumers"], nodes["/controller_epoch"], nodes["/consumers/raw"]) == (None, "7", {"base64": "/wA="})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "f is no JSON document"),
        (b"[]", "f is no metadata document"),
        (b'{"format":"other"}', "f is no metadata document"),
        (b'{"format":"kafkapy-metadata","version":2}', "version 2; this kafkapy reads version 1"),
        (b'{"format":"kafkapy-metadata","version":1}', "lacks its nodes"),
        (b'{"format":"kafkapy-metadata","version":1,"nodes":{},"broker_id_sequence":"x"}', "is no count"),
        (b'{"format":"kafkapy-metadata","version":1,"nodes":{},"broker_id_sequence":-1}', "is no count"),
        (b'{"format":"kafkapy-metadata","version":1,"nodes":{"/brokers/ids/1":null}}', "/brokers/ids/1 is no part"),
        (b'{"format":"kafkapy-metadata","version":1,"nodes":{"/consumers":7}}', "/consumers holds a int"),
        (b'{"format":"kafkapy-metadata","version":1,"nodes":{"/consumers":{"base64":"?"}}}', "is no base64"),
    ],
)
def test_errors_name_the_fault_of_a_document(content: bytes, said: str) -> None:
    with pytest.raises(MetadataError, match=said):
        decode_document(content, "f")
