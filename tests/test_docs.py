"""Files that the pages and the code name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "compat_tests" / "README.md",
        ROOT / "kafkapy" / "storage" / "README.md",
        *(ROOT / "docs").glob("*.md"),
    ]
)
FOLDERS = (
    "",
    "kafkapy",
    "kafkapy/storage",
    "kafkapy/config",
    "compat_tests",
    "compat_tests/attack",
    "harness",
    "kafkapy/records",
    "kafkapy/server/handlers",
)
"""The folders from which a name in a page may start."""
EXAMPLES = {"test_orders.py", "test_failover.py", "at_most_once.py", "at_least_once.py", "exactly_once.py"}
"""Files of the reader, not of the repository; others are those that the page prints."""
PRINTED = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
NAME = re.compile(r"(?<![\w/<>*.-])((?:\.\./)?[a-z_0-9]+(?:/[a-z_0-9]+)*\.py)\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    names = {name.removeprefix("../") for name in NAME.findall(text)} - EXAMPLES - set(PRINTED.findall(text))
    assert [name for name in sorted(names) if not any((ROOT / folder / name).is_file() for folder in FOLDERS)] == []


def test_files_that_the_code_names_exist() -> None:
    """In docstrings and comments of the package, by a path from the package, the folder of the file, or the root."""
    missing = []
    for path in sorted((ROOT / "kafkapy").rglob("*.py")):
        folders = (ROOT, ROOT / "kafkapy", *path.parents[: len(path.parents) - len(ROOT.parents) - 1])
        names = {name.removeprefix("../") for name in NAME.findall(path.read_text())}
        missing += [
            f"{path.relative_to(ROOT)}: {name}"
            for name in sorted(names)
            if not any((folder / name).is_file() for folder in folders)
        ]
    assert missing == []
