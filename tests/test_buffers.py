import pytest

from kafkapy.buffers import MAPPED_FROM_SIZE, new_buffer


@pytest.mark.parametrize("size", [0, 1, MAPPED_FROM_SIZE - 1, MAPPED_FROM_SIZE, 3 * MAPPED_FROM_SIZE + 7])
def test_a_buffer_is_zero_and_writable(size: int) -> None:
    buffer = new_buffer(size)
    assert bytes(buffer) == bytes(size)
    part = buffer[size // 2 :]
    del buffer
    part[:] = b"x" * len(part)
    assert bytes(part) == b"x" * len(part)
