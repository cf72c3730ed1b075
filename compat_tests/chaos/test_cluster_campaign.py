"""Some windows of the campaign that `make chaos` runs for an hour, on brokers of its own, independent of `--target`."""

import subprocess
import sys

import pytest

from compat_tests.chaos.cluster_campaign import MODULE
from compat_tests.chaos.windows import Aim, Kind, Window
from harness.kafkapy_process import ROOT

KINDS = ("pause", "one_way_out", "no_zookeeper", "full_disk", "expire")
"""Faults that are short; where no namespaces are allowed, the campaign leaves three of them out and says so."""


def test_a_seed_and_a_number_make_a_window() -> None:
    drawn = [Window.drawn(7, number, list(Kind)) for number in range(2000)]
    assert drawn == [Window.drawn(7, number, list(Kind)) for number in range(2000)]
    assert {window.kind for window in drawn} == set(Kind)
    assert {window.aim for window in drawn} == set(Aim)
    assert drawn != [Window.drawn(8, number, list(Kind)) for number in range(2000)]
    pauses = [window.seconds for window in drawn if window.kind is Kind.PAUSE]
    assert min(pauses) >= 1
    assert 50 < max(pauses) <= 60


@pytest.mark.java
@pytest.mark.timeout(300)
def test_some_windows_lose_nothing() -> None:
    kinds = [part for kind in KINDS for part in ("--kind", kind)]
    command = [sys.executable, "-m", MODULE, "--windows", "5", "--seed", "363", *kinds]
    found = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "5 windows" in found.stdout
    assert ", 0 violations" in found.stdout
