"""Free memory is filled with pages of a file that takes no space on the disk."""

from pathlib import Path

from bench.brokers.memory import KEPT_FREE_SIZE, PIECE_SIZE, fill_free_memory, free_size, free_size_of


def test_free_memory_is_what_the_kernel_says() -> None:
    text = "MemTotal:       24000000 kB\nMemFree:         1234567 kB\nMemAvailable:    9000000 kB\n"
    assert free_size_of(text) == 1234567 * 1024


def test_the_pages_take_no_space_on_the_disk(tmp_path: Path) -> None:
    said: list[str] = []
    has_room = free_size() > KEPT_FREE_SIZE + 100 * PIECE_SIZE
    filled = fill_free_memory(tmp_path, said.append, 5 * PIECE_SIZE + 1)
    (file,) = tmp_path.iterdir()
    size = file.stat().st_size
    assert size == 5 * PIECE_SIZE or not has_room
    assert 0 <= filled <= size
    assert file.stat().st_blocks == 0
    assert len(said) == (1 if size else 0)
