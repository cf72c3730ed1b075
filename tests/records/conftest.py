"""Both scans under one name: a test that takes ``either_scan`` runs interpreted and, where built, compiled."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from kafkapy.records.scanner import Scan, interpreted_module, is_compiled


@pytest.fixture(params=["interpreted", "compiled"])
def either_scan(request: pytest.FixtureRequest) -> Scan:
    return module_as("scan", request.param).scan


def module_as(name: str, kind: str) -> ModuleType:
    """A module of the records, "interpreted" or "compiled"."""
    if kind == "interpreted":
        return interpreted_module(name)
    compiled = importlib.import_module(f"kafkapy.records.{name}")
    if not is_compiled(compiled):
        pytest.skip("there is no compiled module here: build it with python setup.py build_ext --inplace")
    assert_fresh(Path(str(compiled.__file__)))
    return compiled


def assert_fresh(binary: Path) -> None:
    """Fail if the binary is older than its source: an installation in place keeps the old binary after an edit."""
    module = binary.name.partition(".")[0]
    directory = importlib.import_module("kafkapy.records").__path__[0]
    sources = [Path(directory, module + suffix) for suffix in (".py", ".pxd")]
    newest = max(source.stat().st_mtime for source in sources)
    assert binary.stat().st_mtime >= newest, "the compiled scan is stale: python setup.py build_ext --inplace"
