from pathlib import Path

from kafkapy.storage.closing import close, finish, finished
from tests.storage.support import fill, open_log, reopen


def test_nothing_is_let_go_before_it_is_durable(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    paths = finish(log)
    assert {Path(path).suffix for path in paths} == {".log", ".index", ".timeindex", ".snapshot", ""}
    assert log.recovery_point == 0
    finished(log)
    assert log.recovery_point == 3


def test_a_log_that_is_durable_needs_no_fsync(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    close(log)
    again = reopen(log)
    assert finish(again) == []
