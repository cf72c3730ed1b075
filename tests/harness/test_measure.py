"""Reading /proc and summing up samples."""

import os
import subprocess
import sys

import pytest

from harness.measure import (
    BrokerGoneError,
    Meter,
    median,
    parse_resident_kib,
    parse_stat,
    peak_mib,
    percentile,
    processor_time,
    resident_mib,
)


def test_a_stat_line_with_brackets_in_its_name() -> None:
    line = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0 1 0"
    assert parse_stat(line) == ("S", 103, 24)


def test_resident_memory_is_a_line_of_status() -> None:
    assert parse_resident_kib("Name:\tx\nVmRSS:\t  2048 kB\nThreads:\t1\n") == 2048
    assert parse_resident_kib("VmHWM:\t 4096 kB\nVmRSS:\t 2048 kB\n", "VmHWM") == 4096
    assert parse_resident_kib("Name:\tx\n") == 0


def test_a_meter_counts_what_its_process_does() -> None:
    with Meter(os.getpid()) as meter:
        sum(number * number for number in range(1_000_000))
    assert 0 < meter.processor_s < 10
    assert meter.processor_s == meter.user_s + meter.system_s
    assert processor_time(os.getpid()).total_s >= meter.processor_s
    assert meter.wall_s > 0
    resident = resident_mib(os.getpid())
    assert peak_mib(os.getpid()) >= resident > 5


def test_a_process_that_ended_is_told() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(BrokerGoneError):
        processor_time(process.pid)
    process.stdout.close()
    process.wait()
    with pytest.raises(BrokerGoneError):
        processor_time(process.pid)
    with pytest.raises(BrokerGoneError):
        resident_mib(process.pid)


def test_medians_and_percentiles() -> None:
    assert median([]) is None
    assert median([3.0, 1.0, 2.0]) == 2.0
    values = [float(value) for value in range(1, 1001)]
    assert [percentile(values, share) for share in (0, 0.5, 0.99, 0.999, 1)] == [1, 500, 990, 999, 1000]
