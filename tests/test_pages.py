"""Every snippet of every page runs as it is printed: sections in shells of their own, in a network of their own.

docs/growing.md is one long section, with clients beside it: ``compat_tests/cluster/test_growing.py`` runs it.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from compat_tests.pages.preparations import BEFORE
from compat_tests.pages.shell import Shell, alone
from compat_tests.pages.snippets import OUTPUT, PROGRAMS, SHELL, Section, pages, sections
from compat_tests.pages.toolchains import environment, needs_java, needs_spark
from harness.java_programs import MissingToolchainError
from harness.kafkapy_process import ROOT

GROWING = "docs/growing.md"
SNIPPETS = {
    "README.md": 11,
    "compat_tests/README.md": 4,
    "docs/cluster.md": 7,
    "docs/faults.md": 18,
    "docs/growing.md": 20,
    "docs/mirror.md": 2,
    "docs/operations.md": 12,
    "docs/original_clients.md": 14,
    "docs/security.md": 17,
    "docs/spark.md": 19,
    "docs/testing.md": 22,
    "spark_examples/README.md": 4,
}
"""How many snippets of each page run, those that are files and outputs too; other pages have none."""
FOUND = [each for page in pages() for each in sections(page)]


def parameter(section: Section) -> object:
    before = BEFORE.get((section.page, section.heading), "")
    marks = []
    if needs_java(section, before):
        marks.append(pytest.mark.java)
    if needs_spark(section):
        marks.append(pytest.mark.spark)
    if before or section.languages - {"python", OUTPUT}:
        marks.append(pytest.mark.slow)
    return pytest.param(section, marks=marks, id=f"{section.page}-{section.heading.replace(' ', '-')}")


def counted(section: Section) -> int:
    return sum(each.runs or bool(each.file) or each.is_output for each in section.snippets)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("section", [parameter(each) for each in FOUND if each.page != GROWING and counted(each)])
def test_a_section_runs_as_printed(section: Section, tmp_path: Path) -> None:
    before = BEFORE.get((section.page, section.heading), "")
    try:
        prefix = alone(tmp_path)
        needed = environment(section, tmp_path, before)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    with Shell(tmp_path, needed, prefix) as shell:
        shell.run_before(before)
        for snippet in section.snippets:
            shell.run(snippet)
        shell.stop()


def test_the_snippets_of_all_pages_are_found() -> None:
    found = Counter[str]()
    for section in FOUND:
        found[section.page] += counted(section)
    assert {page: number for page, number in found.items() if number} == SNIPPETS


def test_what_does_not_run_is_text() -> None:
    """A fence of another language would look as if it ran."""
    allowed = {OUTPUT, SHELL, *PROGRAMS}
    assert [
        f"{section.page}:{each.line}: {each.language or 'no language'}"
        for section in FOUND
        for each in section.snippets
        if each.language not in allowed and not each.file
    ] == []


def test_all_fences_are_found() -> None:
    for page in pages():
        fences = re.findall(r"^ *(?:```|~~~)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == 2 * sum(len(each.snippets) for each in sections(page)), page


def test_preparations_are_of_sections() -> None:
    assert set(BEFORE) <= {(each.page, each.heading) for each in FOUND}
