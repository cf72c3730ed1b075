"""Rules for functions, class names and the offsets of a log; the lists of exceptions can only shrink."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode

ROOT = Path(__file__).resolve().parent.parent

# A function over its limit, with the reason why splitting it would hurt the reader.
LONG_FUNCTIONS: dict[str, str] = {}
WIDE_FUNCTIONS: dict[str, str] = {
    "kafkapy/cli/app.py:_start_options": "typer reads them from its parameters, one for each",
    "kafkapy/cli/cluster.py:start_options": "typer reads them from its parameters, one for each",
    "kafkapy/cli/topics.py:reassign": "typer reads a command's options from its parameters, one for each",
    "kafkapy/cli/topics.py:create": "typer reads a command's options from its parameters, one for each",
    "kafkapy/cli/produce.py:run": "typer reads a command's options from its parameters, one for each",
    "kafkapy/cli/metadata.py:export_": "typer reads a command's options from its parameters, one for each",
    "kafkapy/cli/metadata.py:import_": "typer reads a command's options from its parameters, one for each",
    "kafkapy/cli/mirror.py:run": "typer reads a command's options from its parameters, one for each",
    "kafkapy/cli/consume.py:run": "typer reads a command's options from its parameters, one for each",
}

MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 6
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


LOG_STATE = frozenset(
    ("log_start_offset", "log_end_offset", "recovery_point", "truncations", "last_flush_ms", "is_failing")
)


def test_only_a_log_assigns_its_offsets() -> None:
    assigned = {
        f"{name}:{node.lineno}"
        for name in _own_sources()
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in LOG_STATE
        if ast.unparse(node.value).endswith("log")
    }
    assert not assigned


@pytest.mark.parametrize(
    "exceptions",
    [LONG_FUNCTIONS, WIDE_FUNCTIONS],
    ids=["functions", "wide"],
)
def test_exceptions_are_real_and_reasoned(exceptions: dict[str, str]) -> None:
    for key, reason in exceptions.items():
        assert (ROOT / key.partition(":")[0]).is_file(), f"{key} is gone: take it off the list"
        assert len(reason.split()) >= 5, f"{key} needs a sentence of reason"


# one name for one thing

SHARED_CLASS_NAMES = {
    "Connection": "the client's end in kafkapy/clients/connection.py, the broker's in kafkapy/network/connection.py",
    "Dispatcher": "network/dispatcher.py says what a connection needs of the one in server/dispatch/dispatcher.py",
}
"""Class names that two modules have, with the reason; generated messages have Kafka's names and are left out."""


def test_class_names_are_unique() -> None:
    modules_by_class: dict[str, list[str]] = {}
    for name in _own_sources():
        for node in ast.parse((ROOT / name).read_text()).body:
            if isinstance(node, ast.ClassDef):
                modules_by_class.setdefault(node.name, []).append(name)
    shared = {name: modules for name, modules in modules_by_class.items() if len(modules) > 1}
    assert {name: modules for name, modules in shared.items() if name not in SHARED_CLASS_NAMES} == {}


def test_loggers_are_called_logger() -> None:
    others = set()
    for name in _own_sources():
        for node in ast.parse((ROOT / name).read_text()).body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or "getLogger(" not in ast.unparse(node.value or node):
                continue
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if ast.unparse(target) != "logger":
                others.add(name)
    assert others == set()


def _is_number(node: ast.expr) -> bool:
    """Whether it is an integer other than 0."""
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(number, ast.Constant) and type(number.value) is int and number.value != 0


def test_error_codes_have_their_names() -> None:
    """``ErrorCode.X``, or a number without such a name."""
    numbers = []
    for name in _own_sources():
        if name == "kafkapy/errors.py":
            continue
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant | ast.UnaryOp):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                called = ast.unparse(target).strip("_")
                if _is_number(node.value) and (called == "error_code" or called in ErrorCode.__members__):
                    numbers.append(f"{name}:{node.lineno}")
    assert numbers == []
