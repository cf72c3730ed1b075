"""The rate of throttled replication beside ``SimpleRate`` of Apache Kafka 2.7.2, for random histories."""

import random
import subprocess
from pathlib import Path

import pytest

from harness.java_programs import MissingToolchainError, java_command
from kafkapy.replication.quota import ReplicationQuota
from kafkapy.testing.clock import ManualClock

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]

ORACLE = Path(__file__).parents[1] / "java" / "RateOracle.java"
HISTORIES, STEPS = 300, 60


def test_rates_are_those_of_apache_kafka() -> None:
    try:
        command = java_command("RateOracle", [ORACLE], "2.7.2")
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    draw = random.Random(7)
    lines: list[str] = []
    mine: list[float] = []
    for _ in range(HISTORIES):
        clock = ManualClock()
        window_count, window_s = draw.choice((1, 2, 3, 11)), draw.choice((1, 1, 2, 5))
        quota = ReplicationQuota(clock, window_count=window_count, window_s=window_s)
        lines.append(f"new {window_count} {window_s}")
        for _ in range(STEPS):
            clock.advance(draw.choice((0, 1, 100, 500, 999, 1000, 1001, 3000, 11_000, 60_000)))
            now_ms = int(clock.monotonic_s() * 1000)
            if draw.random() < 0.5:
                size = draw.choice((0, 1, 1000, 1_048_576, 10**9))
                quota.record(size)
                lines.append(f"record {now_ms} {size}")
            else:
                mine.append(quota.bytes_per_second)
                lines.append(f"measure {now_ms}")
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=100, check=True)
    theirs = [float(line) for line in run.stdout.split()]
    assert len(mine) > HISTORIES * STEPS / 3
    assert mine == pytest.approx(theirs)
