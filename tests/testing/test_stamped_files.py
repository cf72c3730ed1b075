import time
from pathlib import Path

from kafkapy.testing.moving_clock import MovingClock
from kafkapy.testing.stamped_files import StampedFiles


def test_what_is_written_bears_the_clocks_time(tmp_path: Path) -> None:
    clock = MovingClock()
    files = StampedFiles(clock)
    path = str(tmp_path / "file")
    files.write(path, b"x")
    assert abs(files.modified_ms(path) - time.time() * 1000) < 5_000
    clock.advance(86_400_000)
    assert abs(files.modified_ms(path) - time.time() * 1000) < 5_000
    files.write(path, b"y", 1)
    assert abs(files.modified_ms(path) - time.time() * 1000 - 86_400_000) < 5_000
    assert files.read(path) == b"xy"
