"""Free memory is filled with pages of a file that takes no space on the disk."""

from pathlib import Path

from bench.memory import KEPT_FREE_SIZE, PIECE_SIZE, fill_free_memory, free_size


def test_free_memory_is_what_the_kernel_says() -> None:
    assert free_size("MemTotal:       24000000 kB\nMemFree:         1234567 kB\nMemAvailable:    9000000 kB\n") == (
        1234567 * 1024
    )


def test_the_pages_take_no_space_on_the_disk(tmp_path: Path) -> None:
    said: list[str] = []
    free = free_size(Path("/proc/meminfo").read_text())
    size = fill_free_memory(tmp_path, said.append, 5 * PIECE_SIZE + 1)
    assert size == 5 * PIECE_SIZE or free < KEPT_FREE_SIZE + 6 * PIECE_SIZE
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size == size
    assert file.stat().st_blocks == 0
    assert len(said) == (1 if size else 0)
