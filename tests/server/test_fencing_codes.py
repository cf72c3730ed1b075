import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.server.fencing_codes import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, fencing_code


@pytest.mark.parametrize(("version", "expected"), [(1, INVALID_PRODUCER_EPOCH), (2, PRODUCER_FENCED)])
def test_older_versions_know_another_error(version: int, expected: int) -> None:
    assert fencing_code(PRODUCER_FENCED, version, 2) == expected
    assert fencing_code(51, version, 2) == 51


def test_the_codes_are_kafkas() -> None:
    assert (PRODUCER_FENCED, INVALID_PRODUCER_EPOCH) == (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    )
