"""Connections that do not authenticate: what each costs, how long it may last, whether others are served meanwhile.

CVE-2022-34917 is about the memory before authentication. `compat_tests.attack.strangers` is the same with 5,000.
"""

import time

import pytest

from compat_tests.attack.latencies import Sample, corrected
from compat_tests.attack.options import Bounds
from compat_tests.attack.strangers import KINDS, MEMORY, SLACK_S, Strangers, target

EACH = 40
IDLE_MS = 6_000
ENOUGH = 200
"""Requests of the second client before the attack."""
ARENA = 1 << 20
"""Python takes memory from the system in pieces of this size."""


@pytest.mark.timeout(300)
def test_connections_that_do_not_authenticate_cost_little_and_end() -> None:
    with target(IDLE_MS) as found:
        samples: list[Sample] = []
        while len(samples) < ENOUGH:
            samples += found.second.report().samples
            time.sleep(0.1)
        idle_s = corrected(samples, found.second.interval_s)[-1]
        waited_s = found.waited_s()
        with Strangers(found.place, found.watch, found.second) as strangers:
            rows = [strangers.open(kind, EACH) for kind in KINDS]
            strangers.wait_closed(IDLE_MS / 1000 + SLACK_S)
        waited_s = found.waited_s() - waited_s
        assert [row for row in rows if row.memory > MEMORY + ARENA // EACH] == []
        longest_s = strangers.all_latencies.max_s - waited_s - idle_s
        assert longest_s < Bounds().max_s, strangers.all_latencies
        assert not found.watch.tracebacks()
