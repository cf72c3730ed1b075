"""docs/growing.md: its commands run as printed, and clients beside them lose nothing (`growth.py`)."""

import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.cluster.growth import PAGE, WAYS
from compat_tests.pages.shell import alone
from compat_tests.pages.toolchains import environment
from harness.java_programs import MissingToolchainError
from harness.kafkapy_process import ROOT

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("way", WAYS)
def test_one_broker_becomes_three_and_one_again(way: str, tmp_path: Path) -> None:
    try:
        prefix = alone(tmp_path)
        needed = environment(PAGE["5. Move to Apache Kafka"], tmp_path)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    command = [*prefix, sys.executable, "-m", "compat_tests.cluster.growth", way, str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, env=needed, capture_output=True, text=True, check=False)
    print(run.stdout)
    assert run.returncode == 0, run.stderr
