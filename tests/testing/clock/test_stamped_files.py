import time
from pathlib import Path

import pytest

from kafkapy.testing.clock import stamped_files
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.clock.stamped_files import StampedFiles


@pytest.mark.parametrize("by_descriptor", [True, False])
def test_written_files_have_the_clocks_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_descriptor: bool
) -> None:
    monkeypatch.setattr(stamped_files, "STAMPS_OPEN_FILES", by_descriptor)
    clock = MovingClock()
    files = StampedFiles(clock)
    path = str(tmp_path / "file")
    files.write(path, b"x")
    assert abs(files.modified_ms(path) - time.time() * 1000) < 5_000
    clock.advance(86_400_000)
    assert abs(files.modified_ms(path) - time.time() * 1000) < 5_000
    descriptor = files.open(path)
    files.write_at(descriptor, b"y", 1)
    assert abs(files.modified_ms(path) - time.time() * 1000 - 86_400_000) < 5_000
    files.rename(path, f"{path}.other")
    files.write_at(descriptor, b"z", 2)
    assert files.read(f"{path}.other") == b"xyz"
