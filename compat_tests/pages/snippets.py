"""The fenced snippets of a page, section by section.

A snippet that runs has the language of its program: ``bash``, ``python``, ``java``, ``go`` or ``javascript``. A snippet
after a comment ``<!-- file: NAME -->`` is a file, which commands below it use. Everything else is ``text``: if it
stands right below something that runs, it is its output, in which ``…`` stands for any characters.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness.kafkapy_process import ROOT

SHELL = "bash"
PROGRAMS = ("python", "java", "go", "javascript")
OUTPUT = "text"
_FENCE = re.compile(r"^ *```(\S*)$")
_FILE = re.compile(r"^<!-- file: (\S+) -->$")
_HEADING = re.compile(r"^#+ (.*)$")


def pages() -> list[str]:
    """The pages for users, by their paths in the checkout."""
    beside = (f"{folder}/README.md" for folder in ("compat_tests", "spark_examples", "kafkapy/**"))
    patterns = ("README.md", "CONTRIBUTING.md", "docs/*.md", *beside)
    return sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern))


class Snippet(NamedTuple):
    """The text between two fences, and the number of its first line."""

    line: int
    language: str
    text: str
    file: str
    is_output: bool

    @property
    def runs(self) -> bool:
        """Whether it is a program or commands; a file runs with the command that names it."""
        return not self.file and self.language in (SHELL, *PROGRAMS)


class Section(NamedTuple):
    """A heading, and the snippets below it up to the next heading of any level."""

    page: str
    heading: str
    snippets: list[Snippet]

    @property
    def languages(self) -> set[str]:
        """The languages of the snippets."""
        return {each.language for each in self.snippets}

    @property
    def commands(self) -> str:
        """The text of all snippets for the shell."""
        return "".join(each.text for each in self.snippets if each.language == SHELL)


def sections(page: str) -> Iterator[Section]:
    """The sections of a page that have snippets."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    heading, found = "", list[Snippet]()
    file, is_below = "", False
    numbered = iter(enumerate(lines, 1))
    for number, line in numbered:
        if opened := _FENCE.match(line):
            text = _up_to_the_fence(numbered)
            snippet = Snippet(number + 1, opened[1], text, file, is_below and opened[1] == OUTPUT)
            found.append(snippet)
            file, is_below = "", snippet.runs or snippet.is_output
        elif headed := _HEADING.match(line):
            if found:
                yield Section(page, heading, found)
            heading, found = headed[1], []
        elif named := _FILE.match(line):
            file = named[1]
        elif line.strip():
            is_below = False
    if found:
        yield Section(page, heading, found)


def section(page: str, heading: str) -> Section:
    """The section with this heading."""
    (found,) = (each for each in sections(page) if each.heading == heading)
    return found


def _up_to_the_fence(numbered: Iterator[tuple[int, str]]) -> str:
    """The lines before the closing fence, without the indentation of a list."""
    content = list[str]()
    for _, line in numbered:
        if _FENCE.match(line):
            return textwrap.dedent("".join(content))
        content.append(f"{line}\n")
    raise ValueError("a fence is not closed")


def shows(output: str, printed: str) -> bool:
    """Whether each line of a snippet of output is a line of the real output."""
    return all(re.search(_pattern(line), printed, re.MULTILINE) for line in output.splitlines() if line.strip())


def _pattern(line: str) -> str:
    return "^" + ".*".join(map(re.escape, line.rstrip().split("…"))) + " *$"


def write(snippet: Snippet, directory: Path) -> Path:
    """Write a snippet to a file in a directory; a program without a name gets one that its language accepts."""
    name = snippet.file or f"{_stem(snippet)}.{_ENDINGS[snippet.language]}"
    path = directory / name
    path.write_text(snippet.text, encoding="utf-8")
    return path


_ENDINGS = {SHELL: "sh", "python": "py", "java": "java", "go": "go", "javascript": "js"}


def _stem(snippet: Snippet) -> str:
    named = re.search(r"^public (?:final )?class (\w+)", snippet.text, re.MULTILINE)
    return named[1] if named and snippet.language == "java" else f"line_{snippet.line}"
