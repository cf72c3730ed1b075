"""The allowed differences of a run: their number by reason, and one example of each kind."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.differential.cases import Case, codes_of


class Kind(NamedTuple):
    """Differences that are alike."""

    reason: str
    api: str
    field: str
    codes: tuple[int, int]
    """Theirs and ours, beside the field."""


class Excuses:
    """Counts the allowed differences."""

    def __init__(self) -> None:
        self.kinds: Counter[Kind] = Counter()
        self.examples: dict[Kind, str] = {}

    def note(self, reason: str, case: Case) -> None:
        """A difference that has a reason."""
        kind = Kind(reason, case.api, case.gap.field, codes_of(case))
        self.kinds[kind] += 1
        if kind not in self.examples:
            self.examples[kind] = "\n".join(
                [
                    f"v{case.version} {'.'.join(map(str, case.gap.path))} {case.facts}",
                    *(f"    {_short(each)}" for each in (case.request, *case.gap[1:], case.theirs, case.ours)),
                ]
            )

    def note_silence(self, reason: str, api: str) -> None:
        """One of the two did not answer."""
        self.kinds[Kind(reason, api, "answer", (0, 0))] += 1

    def by_reason(self) -> Counter[str]:
        """The number of differences by reason."""
        found: Counter[str] = Counter()
        for kind, count in self.kinds.items():
            found[kind.reason] += count
        return found

    def write(self, path: Path) -> None:
        """Every kind with its count and example."""
        lines = [
            f"{count:>7}  {kind.api} {kind.field} {kind.codes}: {kind.reason}\n{self.examples.get(kind, '')}"
            for kind, count in self.kinds.most_common()
        ]
        path.write_text("\n".join(lines) + "\n")


def _short(value: Any) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) < 3000 else f"{text[:3000]}…"
