"""The error codes are those of Kafka 4.4.0: number, name, and whether clients try again."""

import subprocess

import pytest

from compat_tests.codec.oracle import SOURCE, oracle_command
from kafkapy.protocol.errors import ErrorCode

pytestmark = pytest.mark.java


def test_same_table_as_java() -> None:
    command = oracle_command(SOURCE.with_name("ErrorTable.java"), "4.4.0")
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    ours = [f"{code.value} {code.name} {str(code.retriable).lower()}" for code in ErrorCode]
    assert run.stdout.split("\n")[:-1] == ours
