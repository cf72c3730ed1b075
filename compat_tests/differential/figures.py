"""Adds up the figures of the campaign's runs, as a page.

python -m compat_tests.differential.figures FOLDER/run-*.json > PAGE
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafkapy.protocol.api_keys import ApiKey


def page(runs: Sequence[dict[str, Any]]) -> str:
    """Runs, APIs with versions and requests, and differences by reason, as Markdown tables."""
    by_api: Counter[str] = Counter()
    let_pass: Counter[str] = Counter()
    for run in runs:
        by_api.update(run["by_api"])
        let_pass.update(run["let_pass"])
    total = sum(run["requests"] for run in runs)
    pieces = [(str(run["seed"]), run["requests"]) for run in runs]
    return "\n\n".join(
        [
            _table(("first seed", "requests"), [*pieces, ("together", total)]),
            _table(("API", "versions", "requests"), _apis(by_api)),
            _table(("what differed, and was let pass", "times"), let_pass.most_common()),
        ]
    )


def _apis(by_api: Counter[str]) -> list[tuple[str, str, int]]:
    found: dict[str, dict[int, int]] = {}
    for name, count in by_api.items():
        api, _, version = name.partition(" v")
        found.setdefault(api, {})[int(version)] = count
    rows = [
        (api, f"{min(counts)}-{max(counts)}", sum(counts.values()))
        for api, counts in sorted(found.items(), key=lambda each: ApiKey[each[0]])
    ]
    return [*rows, (f"{len(found)} APIs", f"{len(by_api)} versions", by_api.total())]


def _table(head: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *([_cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    sys.stdout.write(page([json.loads(Path(name).read_text()) for name in sys.argv[1:]]) + "\n")


if __name__ == "__main__":
    main()
