"""The latencies of a client that sends one request at a time, corrected for the requests that it could not send."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

Sample = tuple[str, float, float]
"""Kind of a request, when it was sent (seconds, monotonic), and seconds until its answer."""
STEP_S: Final = 0.0001


def without_gaps(latencies_s: Iterable[float], interval_s: float) -> Iterator[float]:
    """The latencies, and those of the requests that were not sent while one had no answer.

    A client with one request at a time sends nothing during a stall, so that a stall of a second would count as one
    sample of hundreds. The samples that a client without this limit would have had are added, as HdrHistogram does.
    """
    for latency_s in latencies_s:
        yield latency_s
        missed_s = latency_s - interval_s
        while missed_s > interval_s:
            yield missed_s
            missed_s -= interval_s


def corrected(samples: Iterable[Sample], interval_s: float, waiting_s: float = 0.0) -> list[float]:
    """The samples' latencies without gaps, in order of size; ``waiting_s`` is that of a request without an answer."""
    waited = [*(each[2] for each in samples), *([waiting_s] if waiting_s else [])]
    return sorted(without_gaps(waited, interval_s))


def percentile(ordered: list[float], share: float) -> float:
    """The value below which this share of the ordered values lies; 0 for none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Latencies:
    """The latencies of a long run, without gaps, counted in steps of a tenth of a millisecond."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._counts: Counter[int] = Counter()
        self.max_s = 0.0

    @property
    def count(self) -> int:
        """The number of latencies."""
        return self._counts.total()

    def add(self, latencies_s: Iterable[float]) -> None:
        """Count the latencies of answers that came one after the other."""
        found = list(without_gaps(latencies_s, self._interval_s))
        self._counts.update(int(each / STEP_S) for each in found)
        self.max_s = max([self.max_s, *found])

    def percentile(self, share: float) -> float:
        """The value below which this share lies, in seconds, to a tenth of a millisecond; 0 for none."""
        left = int(self.count * share)
        for step, count in sorted(self._counts.items()):
            left -= count
            if left < 0:
                return min((step + 1) * STEP_S, self.max_s)
        return self.max_s

    def __str__(self) -> str:
        parts = [self.percentile(0.5), self.percentile(0.99), self.max_s]
        return "p50 {:.1f}, p99 {:.1f}, max {:.0f} ms".format(*(each * 1000 for each in parts))
