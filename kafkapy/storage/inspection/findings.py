"""The findings of an inspection and their severities."""

from typing import Final, NamedTuple

ERROR: Final = "error"
"""Records can't be read, or an index leads readers to wrong records."""
WARNING: Final = "warning"
"""The next start repairs it, or no record is lost by it."""
NOTE: Final = "note"
"""No fault: a leftover file, or something that can't be checked."""

MAX_OF_A_FILE: Final = 20


class Finding(NamedTuple):
    """One fault or note about a file; ``position`` is in bytes."""

    severity: str
    path: str
    message: str
    position: int | None = None
    offset: int | None = None


class Findings(list[Finding]):
    """A list of findings; of one file only the first ones, as a damaged index may have an error in every entry."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}

    def add(
        self, severity: str, path: str, message: str, *, position: int | None = None, offset: int | None = None
    ) -> None:
        """Add one finding."""
        count = self._counts[path] = self._counts.get(path, 0) + 1
        if count <= MAX_OF_A_FILE:
            self.append(Finding(severity, path, message, position, offset))
        elif count == MAX_OF_A_FILE + 1:
            self.append(Finding(severity, path, "and more findings"))

    def has(self, severity: str) -> bool:
        """Whether there is a finding of this severity."""
        return any(found.severity == severity for found in self)
