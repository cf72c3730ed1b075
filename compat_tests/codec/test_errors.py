"""The error codes are those of Kafka 4.1.0: number, name, and whether clients try again."""

import subprocess
from pathlib import Path

import pytest

from compat_tests.codec.oracle import SOURCE, compile_java
from kafkapy.protocol.errors import ErrorCode

pytestmark = pytest.mark.java


def test_same_table_as_java(tmp_path: Path) -> None:
    command = compile_java(SOURCE.with_name("ErrorTable.java"), "4.1.0", str(tmp_path))
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    ours = [f"{code.value} {code.name} {str(code.retriable).lower()}" for code in ErrorCode]
    assert run.stdout.split("\n")[:-1] == ours
