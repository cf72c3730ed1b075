"""No request, filled up to a size, delays another client: the quick variant of `compat_tests.attack.fairness`."""

from collections.abc import Iterator

import pytest

from compat_tests.attack.fairness import HEAD, Campaign, Limits, Plan, Row, advertised, attacks, line
from compat_tests.attack.memory import memory_directory
from compat_tests.attack.options import Bounds
from compat_tests.attack.prepared import Counts, Prepared
from compat_tests.attack.second_client import SecondClient

COUNTS = Counts(topics=300, groups=300, transactional_ids=300)
PLAN = Plan(size=100_000, pipeline_size=64_000, seconds=0.0, limit_s=10.0, tries=3)
LIMITS = Limits()


@pytest.fixture(scope="module")
def prepared() -> Iterator[Prepared]:
    with memory_directory() as directory, Prepared(COUNTS, directory=directory) as found:
        yield found


def is_late(row: Row, idle_max_s: float) -> bool:
    """Whether the second client waited for longer than in the long run, because of the broker and not the machine.

    The times in which broker and client waited for a processor, and the client's longest wait on the idle broker, are
    subtracted: both grow on a busy machine, on an idle one the limit is that of the long run. The 99th percentile is
    ignored: one attack of some milliseconds gives too few samples.
    """
    return row.max_s - row.waited_s - idle_max_s > LIMITS.bounds.max_s


@pytest.mark.timeout(900)
def test_no_request_delays_another_client(prepared: Prepared) -> None:
    with SecondClient(prepared.broker.port) as second:
        campaign = Campaign(prepared, second, PLAN, Limits(Bounds(p99_s=LIMITS.bounds.max_s)))
        _, idle_max_s = campaign.idle(2.0)
        rows = list(campaign.rows(attacks(advertised(prepared.broker.bootstrap), "highest")))
    assert len(rows) > 100
    too_much = [row for row in rows if is_late(row, idle_max_s) or row.faults or "memory" in row.verdict(LIMITS)]
    assert not too_much, "\n".join(["", HEAD, *(line(row, LIMITS) for row in too_much)])
