import mmap
import sys

import pytest

from kafkapy.buffers import MAPPED_FROM_SIZE, extended_buffer, new_buffer


@pytest.mark.parametrize("size", [0, 1, MAPPED_FROM_SIZE - 1, MAPPED_FROM_SIZE, 3 * MAPPED_FROM_SIZE + 7])
def test_a_buffer_is_zero_and_writable(size: int) -> None:
    buffer = new_buffer(size)
    assert bytes(buffer) == bytes(size)
    part = buffer[size // 2 :]
    del buffer
    part[:] = b"x" * len(part)
    assert bytes(part) == b"x" * len(part)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere mappings can't be extended, and buffers are copied")
def test_a_mapped_buffer_is_extended_in_place() -> None:
    view = new_buffer(MAPPED_FROM_SIZE)
    mapping = view.obj
    view[:3] = b"abc"
    longer = extended_buffer(view, 64 * MAPPED_FROM_SIZE)
    assert longer.obj is mapping
    assert len(longer) == 64 * MAPPED_FROM_SIZE
    assert (bytes(longer[:3]), longer[-1]) == (b"abc", 0)
    longer[-1] = 7
    assert longer[-1] == 7


def test_a_buffer_with_other_views_stays_as_long_as_it_is() -> None:
    view = new_buffer(MAPPED_FROM_SIZE)
    part = view[:3]
    part[:] = b"abc"
    same = extended_buffer(view, 2 * MAPPED_FROM_SIZE)
    assert (len(same), bytes(same[:3]), bytes(part)) == (MAPPED_FROM_SIZE, b"abc", b"abc")


def test_a_small_buffer_and_a_system_without_mremap(monkeypatch: pytest.MonkeyPatch) -> None:
    small = new_buffer(10)
    assert extended_buffer(small, 20) is small

    class Mapping(mmap.mmap):
        def resize(self, _size: int, /) -> None:
            raise SystemError("mmap: resizing not available--no mremap()")

    monkeypatch.setattr(mmap, "mmap", Mapping)
    assert len(extended_buffer(new_buffer(MAPPED_FROM_SIZE), 2 * MAPPED_FROM_SIZE)) == MAPPED_FROM_SIZE
