"""Both scans under one name: a test that takes ``either_scan`` runs interpreted and, where built, compiled."""

import importlib
from pathlib import Path

import pytest

from kafkapy.records.scanner import Scan, interpreted_module, is_compiled


@pytest.fixture(params=["interpreted", "compiled"])
def either_scan(request: pytest.FixtureRequest) -> Scan:
    if request.param == "interpreted":
        return interpreted_module().scan
    module = importlib.import_module("kafkapy.records.scan")
    if not is_compiled(module):
        pytest.skip("no compiled scan here: python setup.py build_ext --inplace builds it")
    assert_fresh(Path(str(module.__file__)))
    return module.scan


def assert_fresh(binary: Path) -> None:
    """An installation in place goes on running the old binary after an edit; no test may pass on that."""
    module = binary.name.partition(".")[0]
    directory = importlib.import_module("kafkapy.records").__path__[0]
    sources = [Path(directory, module + suffix) for suffix in (".py", ".pxd")]
    newest = max(source.stat().st_mtime for source in sources)
    assert binary.stat().st_mtime >= newest, "the compiled scan is stale: python setup.py build_ext --inplace"
