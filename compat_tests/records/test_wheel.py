"""The wheel holds the compiled scan where a C compiler is there, and installs without one all the same."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def build_wheel(directory: Path, environment: dict[str, str]) -> list[str]:
    """The names of the files in a wheel built from a copy of the sources; no network: the environment's own Cython."""
    pytest.importorskip("Cython", reason="Cython, which compiles the wheel, is not installed here")
    tree = directory / "tree"
    shutil.copytree(
        ROOT / "kafkapy", tree / "kafkapy", ignore=shutil.ignore_patterns("*.so", "*.pyd", "*.c", "__pycache__")
    )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, tree / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "-q",
        "-w",
        str(directory),
        str(tree),
    ]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    (wheel,) = directory.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_the_wheel_holds_the_compiled_scan_and_no_c_file(tmp_path: Path) -> None:
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("no C compiler here")
    names = build_wheel(tmp_path, {})
    assert any(name.startswith("kafkapy/records/scan.") and name.endswith((".so", ".pyd")) for name in names)
    assert "kafkapy/records/scan.py" in names
    assert not [name for name in names if name.endswith(".c")]


def test_without_a_compiler_the_package_installs_interpreted(tmp_path: Path) -> None:
    names = build_wheel(tmp_path, {"CC": "/nowhere/cc"})
    assert "kafkapy/records/scan.py" in names
    assert not [name for name in names if name.endswith((".so", ".c"))]
