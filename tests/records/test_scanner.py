import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kafkapy import records
from kafkapy.records import scanner

from .conftest import assert_fresh

SAY = "from kafkapy.records import scan_is_compiled; print(scan_is_compiled())"


def test_the_environment_can_choose_the_interpreted_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scanner.INTERPRETED_VARIABLE, "1")
    assert not scanner.is_compiled(scanner.choose())
    monkeypatch.setenv(scanner.INTERPRETED_VARIABLE, "0")
    assert scanner.choose() is importlib.import_module("kafkapy.records.scan")
    assert scanner.choose("compact") is importlib.import_module("kafkapy.records.compact")


def test_a_process_reports_whether_its_scan_is_compiled() -> None:
    environment = {**os.environ, scanner.INTERPRETED_VARIABLE: "1"}
    said = subprocess.run([sys.executable, "-c", SAY], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
    assert records.scan_is_compiled() == scanner.is_compiled(scanner._chosen)


def test_a_stale_binary_fails_the_tests(tmp_path: os.PathLike[str]) -> None:
    binary = os.path.join(tmp_path, "scan.so")
    with open(binary, "wb"):
        pass
    path = Path(binary)
    assert_fresh(path)
    os.utime(path, (0, 0))
    with pytest.raises(AssertionError, match="stale"):
        assert_fresh(path)


def test_each_fault_has_a_message() -> None:
    assert [scanner.fault_message(fault) for fault in (-1, -2, -3, -4)] == list(scanner.FAULTS)


@pytest.mark.parametrize("fields", [{}, {"INTERFACE": 1}])
def test_a_module_that_was_compiled_from_an_older_file_is_refused(fields: dict[str, int]) -> None:
    old = ModuleType("scan")
    old.__file__ = "kafkapy/records/scan.so"
    vars(old).update(fields)
    with pytest.raises(ImportError, match=r"scan\.so was compiled from another version of scan\.py\. Install"):
        scanner.check_interface(old)
    assert scanner.check_interface(scanner.interpreted_module()).INTERFACE == scanner.INTERFACE
