import pytest

from kafkapy.records.batch import crc_is_valid, read_header
from kafkapy.records.control import ControlType, Marker, encode_leader_change, encode_marker, marker_batch, read_control
from kafkapy.records.errors import InvalidRecordError
from kafkapy.records.record import Record, encode_batch


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
def test_markers_are_read_as_they_were_written(control_type: ControlType) -> None:
    data = encode_marker(control_type, Marker(4001, 3, 12), 1_000, base_offset=21, leader_epoch=2)
    header = read_header(data)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.partition_leader_epoch, header.record_count) == (21, 2, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4001, 3, -1)
    assert crc_is_valid(data, 0, header)
    control = read_control(data)
    assert (control.type, control.coordinator_epoch, control.version) == (control_type, 12, 0)


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
def test_a_brokers_own_marker_has_the_same_bytes(control_type: ControlType) -> None:
    written = Marker(4001, 3, 12)
    batch = marker_batch(control_type, written, 1_000)
    data = encode_marker(control_type, written, 1_000)
    assert (batch.buffer, batch.header, batch.control) == (data, read_header(data), read_control(data))


def test_a_leader_change_is_a_control_batch_outside_of_a_transaction() -> None:
    data = encode_leader_change(b"message", 5, base_offset=9, leader_epoch=1)
    header = read_header(data)
    assert (header.is_control, header.is_transactional, header.has_producer_id) == (True, False, False)
    assert read_control(data, header) == (ControlType.LEADER_CHANGE, b"message", 0)


@pytest.mark.parametrize(
    "records",
    [[], [Record(b"\0\0\0\1", b"")] * 2, [Record(None, b"")], [Record(b"\0\0\0", b"")], [Record(b"\xff\xff\0\0", b"")]],
    ids=["none", "two", "null key", "short key", "negative version"],
)
def test_a_malformed_control_batch_is_refused(records: list[Record]) -> None:
    with pytest.raises(InvalidRecordError):
        read_control(encode_batch(records, is_control=True))


def test_unknown_control_types_can_be_read() -> None:
    control = read_control(encode_batch([Record(b"\0\0\0\6", None)], is_control=True))
    assert (control.type, control.value) == (6, b"")
    with pytest.raises(InvalidRecordError):
        assert control.coordinator_epoch
