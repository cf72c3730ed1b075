"""House rules on sizes and companions; the lists of exceptions can only shrink."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A file or function over its limit, with the reason why splitting it would hurt the reader.
LONG_FILES: dict[str, str] = {
    "kafkapy/protocol/reader.py": "a short method for each primitive of the wire grammar, which wants one page",
    "kafkapy/protocol/writer.py": "a short method for each primitive of the wire grammar, which wants one page",
}
LONG_FUNCTIONS: dict[str, str] = {}
WIDE_FUNCTIONS: dict[str, str] = {
    "kafkapy/server/commands/app.py:_start_options": "typer reads them from its parameters, one for each",
    "kafkapy/server/commands/topics.py:create": "typer reads a command's options from its parameters, one for each",
    "kafkapy/server/commands/produce.py:run": "typer reads a command's options from its parameters, one for each",
    "kafkapy/server/commands/metadata.py:export_": "typer reads a command's options from its parameters, one for each",
    "kafkapy/server/commands/metadata.py:import_": "typer reads a command's options from its parameters, one for each",
    "kafkapy/server/commands/consume.py:run": "typer reads a command's options from its parameters, one for each",
}
# A source file whose tests live elsewhere, with the reason.
NO_TEST_FILE: dict[str, str] = {}

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_FUNCTIONS = 25
MAX_PARAMETERS = 6
MAX_HANDLER_LINES = 140
MAX_HOT_HANDLER_LINES = 220
MAX_TEST_FILE_LINES = 600
HOT_HANDLERS = {"kafkapy/server/handlers/produce.py", "kafkapy/server/handlers/fetch.py"}
GENERATED = ("kafkapy/protocol/messages/", "kafkapy/protocol/errors.py", "kafkapy/protocol/api_keys.py")


def _tracked() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def _own_sources() -> list[str]:
    return [
        name
        for name in _tracked()
        if name.startswith("kafkapy/") and not name.startswith(GENERATED) and not name.endswith("__init__.py")
    ]


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(name: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse((ROOT / name).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _file_limit(name: str) -> int:
    if name in HOT_HANDLERS:
        return MAX_HOT_HANDLER_LINES
    return MAX_HANDLER_LINES if name.startswith("kafkapy/server/handlers/") else MAX_FILE_LINES


def test_source_files_stay_short() -> None:
    long = {
        name: lines
        for name in _own_sources()
        if (lines := (ROOT / name).read_text().count("\n")) > _file_limit(name) and name not in LONG_FILES
    }
    assert not long


def test_test_files_stay_short() -> None:
    long = {
        name: lines
        for name in _tracked()
        if name.startswith(("tests/", "compat_tests/"))
        and (lines := (ROOT / name).read_text().count("\n")) > MAX_TEST_FILE_LINES
    }
    assert not long


def test_functions_stay_short_and_narrow() -> None:
    long = {}
    wide = {}
    for name in _own_sources():
        for function in _functions(name):
            key = f"{name}:{function.name}"
            length = (function.end_lineno or 0) - function.lineno + 1
            if length > MAX_FUNCTION_LINES and key not in LONG_FUNCTIONS:
                long[key] = length
            arguments = [
                argument.arg
                for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
                if argument.arg not in ("self", "cls")
            ]
            if len(arguments) > MAX_PARAMETERS and function.name != "__init__" and key not in WIDE_FUNCTIONS:
                wide[key] = len(arguments)
    assert not long
    assert not wide


def test_files_hold_few_functions() -> None:
    crowded = {
        name: count
        for name in _own_sources()
        if (count := sum(1 for _ in _functions(name))) > MAX_FUNCTIONS and name not in LONG_FILES
    }
    assert not crowded


def test_every_source_file_has_its_test_file() -> None:
    tests = set(_tracked())
    missing = []
    for name in _own_sources():
        path = Path(name)
        test = Path("tests", *path.parts[1:-1], f"test_{path.name}").as_posix()
        if test not in tests and name not in NO_TEST_FILE:
            missing.append(f"{name} wants {test}")
    assert not missing


@pytest.mark.parametrize(
    "exceptions",
    [LONG_FILES, LONG_FUNCTIONS, WIDE_FUNCTIONS, NO_TEST_FILE],
    ids=["files", "functions", "wide", "tests"],
)
def test_exceptions_are_real_and_reasoned(exceptions: dict[str, str]) -> None:
    for key, reason in exceptions.items():
        assert (ROOT / key.partition(":")[0]).is_file(), f"{key} is gone: take it off the list"
        assert len(reason.split()) >= 5, f"{key} needs a sentence of reason"
