from pathlib import Path
from uuid import UUID

from harness.client import batch, produce_request
from kafkapy.observe.trace.summary import HIDDEN, LOOKED_THROUGH, MOST_VALUES, has_error, of_records, summary
from kafkapy.platform.files import Files, FileSlice
from kafkapy.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.fetch import FetchRequest, FetchTopic
from kafkapy.protocol.messages.heartbeat import HeartbeatResponse
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.list_groups import ListGroupsRequest


def test_fields_with_default_values_are_left_out() -> None:
    request = JoinGroupRequest("g", 10_000, protocols=[JoinGroupRequestProtocol("range", b"12345")])
    assert summary(request) == {
        "group_id": "g", "session_timeout_ms": 10_000, "protocols": [{"name": "range", "metadata": "<5 B>"}],
    }  # fmt: skip
    assert summary(FetchRequest(topics=[FetchTopic(topic_id=UUID(int=5))]))["topics"] == [
        {"topic_id": str(UUID(int=5))}
    ]


def test_records_are_counted() -> None:
    two = batch(b"x", b"y", compression=1) + batch(b"z")
    shown = summary(produce_request("t", memoryview(two)))  # type: ignore[arg-type]  # as they come from the wire
    (partition,) = shown["topic_data"][0]["partition_data"]
    assert partition == {
        "index": 0, "records": {"records": 3, "batches": 2, "bytes": len(two), "compression": "gzip+none"},
    }  # fmt: skip
    assert of_records(b"") == {"bytes": 0}
    assert of_records(bytes(100))["damaged"]
    assert of_records(bytes(10)) == {"records": 0, "batches": 0, "bytes": 10, "compression": "none"}
    assert of_records(bytes(LOOKED_THROUGH + 1)) == {"bytes": LOOKED_THROUGH + 1}
    unknown = bytearray(batch(b"x"))
    unknown[22] |= 7
    assert of_records(bytes(unknown))["compression"] == "unknown"


def test_records_in_a_file_are_counted_too(tmp_path: Path) -> None:
    files, path, data = Files(), str(tmp_path / "log"), batch(b"x")
    files.write(path, data)
    part = FileSlice(files.open(path), 0, len(data))
    assert of_records(part) == {"records": 1, "batches": 1, "bytes": len(data), "compression": "none"}
    assert (part.position, part.size) == (0, len(data)), "it is still to be sent"
    large = FileSlice(files.open(path), 0, LOOKED_THROUGH + 1)
    assert of_records(large) == {"bytes": LOOKED_THROUGH + 1}


def test_secrets_and_values_of_unknown_keys_are_hidden() -> None:
    values = {"ssl.key.password": "secret", "retention.ms": "5", "num.io.threads": "3", "my.api.key": "secret"}
    configs = [AlterableConfig(name, value) for name, value in values.items()]
    shown = summary(AlterConfigsRequest([AlterConfigsResource(4, "0", configs)]))
    found = {each["name"]: each["value"] for each in shown["resources"][0]["configs"]}
    assert found == {"ssl.key.password": HIDDEN, "retention.ms": "5", "num.io.threads": "3", "my.api.key": HIDDEN}


def test_errors_have_their_names() -> None:
    assert summary(HeartbeatResponse(error_code=25)) == {"error_code": "UNKNOWN_MEMBER_ID"}
    assert summary(HeartbeatResponse(error_code=9999)) == {"error_code": "9999"}
    assert has_error({"topics": [{"name": "t"}, {"error_code": "CORRUPT_MESSAGE"}]})
    assert not has_error({"topics": [{"name": "t"}], "throttle_time_ms": 5})


def test_long_values_are_cut() -> None:
    many = CreateTopicsRequest([CreatableTopic(f"t{number}", 1, 1) for number in range(500)])
    topics = summary(many)["topics"]
    assert len(topics) == 21
    assert topics[-1] == "… 480 more"
    names = ["x" * 1000] * 5
    assert all(len(name) < 210 for name in summary(ListGroupsRequest(names))["states_filter"])
    wide = CreateTopicsRequest(
        [CreatableTopic(f"t{n}", 1, 1, configs=[AlterableConfig("retention.ms", "5") for _ in range(20)])  # type: ignore[misc]  # looks the same
         for n in range(20)]
    )  # fmt: skip
    assert str(summary(wide)).count("retention.ms") < MOST_VALUES
    assert "…" in str(summary(wide))
