import pytest

from kafkapy.records import errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.CorruptRecordError, 2),
        (errors.RecordTooLargeError, 10),
        (errors.RecordBatchTooLargeError, 18),
        (errors.InvalidTimestampError, 32),
        (errors.UnsupportedForMessageFormatError, 43),
        (errors.UnsupportedCompressionTypeError, 76),
        (errors.InvalidRecordError, 87),
    ],
)
def test_each_error_has_kafkas_code(error: type[errors.RecordsError], code: int) -> None:
    assert error("why").error_code == code
    assert str(error("why")) == "why"


def test_rejected_records_are_named() -> None:
    assert errors.InvalidRecordError("why").record_errors == []
    assert errors.InvalidTimestampError("why", [(3, "late")]).record_errors == [(3, "late")]
