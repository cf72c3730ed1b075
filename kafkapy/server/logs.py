"""The broker's log: lines for people, or one JSON object a line for machines, to standard error."""

import json
import logging
import sys
from typing import Final, TextIO

LEVELS: Final = ("debug", "info", "warning", "error")

_LINE: Final = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time (ms since the epoch), level, logger, message, and error with traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """See the class."""
        entry = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(level: str, *, as_json: bool, stream: TextIO | None = None) -> None:
    """Send everything from ``level`` up to ``stream`` (standard error), replacing what was configured before."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter(_LINE, "%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
