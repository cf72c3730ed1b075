"""The broker's log: lines for people, or one JSON object per line for machines, to standard error.

Names and error messages in a log line come from clients. ``make_safe`` escapes them in the finished record, so that
no call has to: a message is one line, without escape sequences, and no value in it is longer than
``LONGEST_VALUE``. It is applied twice:

- by the handler that ``configure`` installs for ``kafkapy start``, to the records of every library;
- by the first handler of the logger ``kafkapy``, which ``protect`` installs for each broker, also in a test's process.
  The handlers of the loggers above ``kafkapy`` get the record that it has changed.
"""

import logging
import re
import sys
import traceback
from types import TracebackType
from typing import Final, TextIO

from kafkapy.text import printable, printable_json, shortened

LEVELS: Final = ("debug", "info", "warning", "error")
LONGEST_VALUE: Final = 500
"""Characters of one value in a message, or of an exception's text."""
LONGEST_MESSAGE: Final = 8_000
"""Characters of a message."""

_LINE: Final = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"
_OWN_LINES: Final = re.compile(r'[ |]*File "|\n(The above|During handling)')
"""The parts of a traceback that consist of several lines: a frame, and the text between two exceptions."""

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def make_safe(record: logging.LogRecord) -> None:
    """Escape and shorten the record's message, and the exception in ``exc_text``, where ``Formatter`` looks for it."""
    message = record.getMessage()
    safe = shortened(_with_short_values(record), LONGEST_MESSAGE)
    safe = printable(safe)
    if safe != message:
        record.msg, record.args = safe, None
    if record.exc_info and record.exc_info[0] is not None:
        record.exc_text = _safe_exception(record.exc_info)
    elif record.exc_text:
        record.exc_text = printable(record.exc_text, kept="\n")
    if record.stack_info:
        record.stack_info = printable(record.stack_info, kept="\n")


def _with_short_values(record: logging.LogRecord) -> str:
    args = record.args
    if not isinstance(args, tuple) or not args:
        return record.getMessage()
    return str(record.msg) % tuple(each if isinstance(each, int | float) else _Short(each) for each in args)


class _Short:
    """A value whose text is shortened."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return shortened(str(self._value), LONGEST_VALUE)

    def __repr__(self) -> str:
        return shortened(repr(self._value), LONGEST_VALUE)


def _safe_exception(info: ExceptionInfo) -> str:
    parts = traceback.TracebackException(*info).format()
    return "".join(map(_safe_part, parts)).rstrip("\n")


def _safe_part(part: str) -> str:
    if _OWN_LINES.match(part):
        return printable(part, kept="\n")
    return printable(shortened(part.removesuffix("\n"), LONGEST_VALUE)) + "\n"


class _SafeRecords(logging.Filter):
    """Makes each record safe; lets all of them through."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See ``logging.Filter``."""
        make_safe(record)
        return True


class _FirstHandler(logging.Handler):
    """Makes records safe before the handlers after it see them, and writes nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        """See the class. If there is no other handler, the record goes to ``logging.lastResort``."""
        make_safe(record)
        last_resort = logging.lastResort
        if last_resort is not None and record.levelno >= last_resort.level and not self._has_others(record):
            last_resort.handle(record)

    def _has_others(self, record: logging.LogRecord) -> bool:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


_first_handler: Final = _FirstHandler()


def protect() -> None:
    """Make all records of kafkapy's loggers safe for the handlers of the loggers above; may be called repeatedly."""
    handlers = logging.getLogger("kafkapy").handlers
    if _first_handler not in handlers:
        handlers.insert(0, _first_handler)


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
        if record.exc_text:
            entry["error"] = record.exc_text
        return printable_json(entry)


def configure(level: str, *, as_json: bool, stream: TextIO | None = None) -> None:
    """Send records of ``level`` and above to ``stream`` (standard error), replacing the earlier configuration."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.addFilter(_SafeRecords())
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter(_LINE, "%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
