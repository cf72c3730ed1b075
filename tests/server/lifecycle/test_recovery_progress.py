import io
import logging

import pytest

from kafkapy.server.lifecycle.recovery_progress import RecoveryProgress
from kafkapy.storage.parallel_recovery import Progress
from kafkapy.testing.clock import ManualClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_short_recovery_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    clock, screen = ManualClock(0), Terminal()
    with caplog.at_level(logging.INFO):
        for stream in (screen, io.StringIO()):
            progress = RecoveryProgress(clock, stream)
            clock.advance(1_900)
            progress.report(Progress(1, 2, 3))
            progress.close()
    assert caplog.text == screen.getvalue() == ""


def test_a_long_recovery_logs_a_line_every_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(0)
    progress = RecoveryProgress(clock, io.StringIO())
    with caplog.at_level(logging.INFO):
        for second in range(13):
            progress.report(Progress(second * 10**9, 20 * 10**9, 7))
            clock.advance(1_000)
        progress.close()
    assert [record.getMessage() for record in caplog.records] == [
        "Recovering: 2.0 of 20.0 GB of 7 logs, 10 %",
        "Recovering: 7.0 of 20.0 GB of 7 logs, 35 %",
        "Recovering: 12.0 of 20.0 GB of 7 logs, 60 %",
    ]


def test_a_long_recovery_shows_a_bar_on_a_terminal(caplog: pytest.LogCaptureFixture) -> None:
    clock, screen = ManualClock(0), Terminal()
    progress = RecoveryProgress(clock, screen)
    clock.advance(2_500)
    with caplog.at_level(logging.INFO):
        for done in (5, 10):
            progress.report(Progress(done * 10**9, 20 * 10**9, 7))
        progress.close()
        progress.close()
    assert "Recovering 7 logs" in screen.getvalue()
    assert "/20.0 GB" in screen.getvalue()
    assert caplog.text == ""
