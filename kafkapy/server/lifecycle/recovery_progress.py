"""Shows the progress of a recovery that takes long: a bar on a terminal, lines in the log elsewhere."""

import logging
import sys
from typing import TYPE_CHECKING, Final, TextIO

from kafkapy.clock import Clock
from kafkapy.storage.parallel_recovery import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

logger: Final = logging.getLogger(__name__)

PATIENCE_S: Final = 2.0
LINE_EACH_S: Final = 5.0


class RecoveryProgress:
    """Shows each ``Progress`` that is reported; ``close`` it when the recovery is done."""

    def __init__(self, clock: Clock, stream: TextIO | None = None) -> None:
        self._clock = clock
        self._stream = stream or sys.stderr
        self._began_s = clock.monotonic_s()
        self._next_line_s = PATIENCE_S
        self._bar: Bar | None = None

    def report(self, progress: Progress) -> None:
        """Show the progress, if the recovery has taken ``PATIENCE_S`` already."""
        elapsed_s = self._clock.monotonic_s() - self._began_s
        if elapsed_s < PATIENCE_S:
            return
        if self._stream.isatty():
            self._show(progress)
        elif elapsed_s >= self._next_line_s:
            self._next_line_s = elapsed_s + LINE_EACH_S
            logger.info(
                "Recovering: %.1f of %.1f GB of %d logs, %d %%",
                progress.done_bytes / 1e9,
                progress.total_bytes / 1e9,
                progress.logs,
                100 * progress.done_bytes // progress.total_bytes,
            )

    def _show(self, progress: Progress) -> None:
        if self._bar is None:
            # imported only here: a start without a long recovery must not wait for this import
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("Recovering {task.fields[logs]} logs"), BarColumn(), DownloadColumn())
            console = Console(file=self._stream)
            self._bar = Bar(*columns, TimeRemainingColumn(), console=console, transient=True)
            self._bar.start()
            self._bar.add_task("", total=progress.total_bytes, logs=progress.logs)
        self._bar.update(self._bar.task_ids[0], completed=progress.done_bytes)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
