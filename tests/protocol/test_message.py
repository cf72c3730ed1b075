"""Behaviour of all generated messages: equality, defaults, nulls and versions."""

import importlib
import subprocess
import sys

import pytest

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import EMPTY, Message, ProtocolError, UnsupportedVersion
from kafkapy.protocol.messages import APIS, has_classes, request_class, response_class
from kafkapy.protocol.messages.fetch import EpochEndOffset, FetchResponse
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.messages.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkapy.protocol.primitives import Reader, decode, encode


def test_equality_and_repr() -> None:
    assert HeartbeatResponse(1, 2) == HeartbeatResponse(throttle_time_ms=1, error_code=2)
    assert HeartbeatResponse(1, 2) != HeartbeatResponse(1, 3)
    assert HeartbeatResponse() != HeartbeatRequest()
    assert repr(HeartbeatResponse(1, 2)) == (
        "HeartbeatResponse(throttle_time_ms=1, error_code=2, unknown_tagged_fields=None)"
    )
    with pytest.raises(TypeError):
        hash(HeartbeatResponse())


def test_the_base_class_can_not_be_encoded() -> None:
    with pytest.raises(NotImplementedError):
        encode(Message(), 0)
    with pytest.raises(NotImplementedError):
        decode(Message, b"", 0)


def test_default_lists_are_not_shared() -> None:
    request = MetadataRequest()
    assert request.topics is not None
    request.topics.append(MetadataRequestTopic(name="t"))
    assert MetadataRequest().topics == []
    assert EMPTY == []


def test_a_set_field_that_the_version_lacks_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="group_instance_id='i'"):
        encode(HeartbeatRequest("g", 1, "m", "i"), 2)
    assert decode(HeartbeatRequest, encode(HeartbeatRequest("g", 1, "m", "i"), 3), 3).group_instance_id == "i"
    assert encode(HeartbeatResponse(9, 0), 0) == b"\x00\x00"


def test_null_is_refused_in_versions_without_null() -> None:
    assert encode(MetadataRequest(None), 1) == b"\xff\xff\xff\xff"
    with pytest.raises(UnsupportedVersion):
        encode(MetadataRequest(None), 0)


def test_unknown_tagged_fields_are_passed_on_or_refused() -> None:
    data = encode(HeartbeatResponse(), 4)[:-1] + b"\x01\x63\x02hi"
    message = decode(HeartbeatResponse, data, 4)
    assert message.unknown_tagged_fields == [(99, b"hi")]
    assert encode(message, 4) == data
    with pytest.raises(UnsupportedVersion):
        encode(message, 3)


def test_tagged_structs_that_are_absent_are_none() -> None:
    from kafkapy.protocol.messages.fetch import FetchableTopicResponse, PartitionData

    def response(diverging: EpochEndOffset | None) -> FetchResponse:
        return FetchResponse(
            responses=[FetchableTopicResponse("t", partitions=[PartitionData(diverging_epoch=diverging)])]
        )

    data = encode(response(None), 12)
    assert decode(FetchResponse, data, 12).responses[0].partitions[0].diverging_epoch is None
    assert encode(response(EpochEndOffset()), 12) == data
    diverging = EpochEndOffset(3, 40)
    assert decode(FetchResponse, encode(response(diverging), 12), 12) == response(diverging)


def test_produce_request_keeps_records_in_place() -> None:
    # acks -1, timeout 1500 ms, topic "t", partition 2, three bytes of records
    data = bytes.fromhex("ffff ffff 000005dc 00000001 0001 74 00000001 00000002 00000003 616263")
    request = decode(ProduceRequest, bytearray(data), 8)
    assert request == ProduceRequest(
        None, -1, 1500, [TopicProduceData("t", partition_data=[PartitionProduceData(2, b"abc")])]
    )
    assert isinstance(request.topic_data[0].partition_data[0].records, memoryview)
    assert encode(request, 8) == data


def test_records_of_internal_topics_are_encoded() -> None:
    key = OffsetCommitKey("g", "t", 3)
    assert encode(key, 1) == bytes.fromhex("0001 67 0001 74 00000003")
    value = OffsetCommitValue(offset=5, leader_epoch=-1, metadata="", commit_timestamp=1)
    assert encode(value, 3) == bytes.fromhex("0000000000000005 ffffffff 0000 0000000000000001")


@pytest.mark.parametrize("api_key", list(filter(has_classes, APIS)))
def test_every_api_cut_short_gives_protocol_errors_only(api_key: int) -> None:
    for message in (request_class(api_key), response_class(api_key)):
        _, _, low, high, _ = APIS[api_key]
        for version in {low, high}:
            data = encode(message(), version)
            assert encode(decode(message, data, version), version) == data
            for size in range(len(data)):
                with pytest.raises(ProtocolError):
                    message.read(Reader(data[:size]), version)


def test_message_modules_are_imported_at_first_use() -> None:
    prefix = "kafkapy.protocol.messages."
    code = f"import sys, kafkapy.protocol.headers; print([m for m in sys.modules if m.startswith('{prefix}')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    assert (
        importlib.import_module("kafkapy.protocol.messages.produce") is sys.modules["kafkapy.protocol.messages.produce"]
    )
    with pytest.raises(KeyError):
        request_class(999)
    with pytest.raises(KeyError):
        request_class(ApiKey.VOTE)


def test_error_codes() -> None:
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.retriable
    assert not ErrorCode.UNSUPPORTED_VERSION.retriable
    assert len({code.message for code in ErrorCode}) == len(ErrorCode) == 138
