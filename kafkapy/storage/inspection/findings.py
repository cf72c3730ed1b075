"""What an inspection finds, and how bad it is."""

from typing import Final, NamedTuple

ERROR: Final = "error"
"""Records can't be read, or readers would be led astray."""
WARNING: Final = "warning"
"""A start mends it, or it costs no record."""
NOTE: Final = "note"
"""Nothing is wrong: a leftover, or something that can't be told."""

MAX_OF_A_FILE: Final = 20


class Finding(NamedTuple):
    """One thing that is not as it should be; ``position`` is in bytes."""

    severity: str
    path: str
    message: str
    position: int | None = None
    offset: int | None = None


class Findings(list[Finding]):
    """Collects; of one file only the first ones, for a damaged index has an error in every entry."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}

    def add(
        self, severity: str, path: str, message: str, *, position: int | None = None, offset: int | None = None
    ) -> None:
        """Note down one finding."""
        count = self._counts[path] = self._counts.get(path, 0) + 1
        if count <= MAX_OF_A_FILE:
            self.append(Finding(severity, path, message, position, offset))
        elif count == MAX_OF_A_FILE + 1:
            self.append(Finding(severity, path, "and more of the kind"))

    def has(self, severity: str) -> bool:
        """Whether one is as bad as that."""
        return any(found.severity == severity for found in self)
