"""Periods of service: how long they last, and how the delay grows with the hours since a period began."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

from spark_examples.common.chart_style import COLOURS, GRID, GROUND, INK, PALE
from spark_examples.data.flights import AIRPORTS, HOUR_MS
from spark_examples.sessions.check import Period

HOURS = 20


def _hours(period: Period) -> int:
    return (period.last_ms - period.begin_ms) // HOUR_MS


def _mean_delays(periods: list[Period]) -> tuple[list[int], list[float]]:
    """By length of a period in hours, the mean delay of its flights in minutes."""
    sums: dict[int, list[int]] = {}
    for period in periods:
        total = sums.setdefault(min(_hours(period), HOURS), [0, 0])
        total[:] = total[0] + period.delay, total[1] + period.departed
    hours = sorted(length for length, (_, departed) in sums.items() if departed >= 30)
    return hours, [sums[length][0] / sums[length][1] for length in hours]


def draw(periods: list[Period], path: Path) -> None:
    """Writes the chart as a PNG file."""
    mpl.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK})
    figure, (lengths, delays) = pyplot.subplots(1, 2, figsize=(11, 3.8), facecolor=GROUND)
    figure.subplots_adjust(left=0.07, right=0.97, top=0.74, bottom=0.14, wspace=0.18)
    for (origin, name), colour in zip(AIRPORTS.items(), COLOURS, strict=False):
        own = [period for period in periods if period.route.startswith(origin)]
        counts = [sum(1 for period in own if _hours(period) == hour) for hour in range(HOURS)]
        lengths.plot(range(HOURS), counts, color=colour, label=name)
        delays.plot(*_mean_delays(own), color=colour, label=name)
    for axis, title in ((lengths, "periods by their hours"), (delays, "mean delay of a flight, minutes, by hours")):
        _dress(axis, title)
    lengths.legend(frameon=False, ncols=3, loc="upper right", fontsize=8)
    figure.text(0.07, 0.9, "Periods of service of New York's routes, no gap over six hours", fontweight="bold")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _dress(axis: Any, title: str) -> None:
    axis.set_title(title, loc="left", fontsize=9, color=PALE)
    axis.tick_params(length=0, colors=PALE, labelsize=8)
    axis.grid(visible=True, color=GRID)
    axis.set_axisbelow(True)
    for side in axis.spines.values():
        side.set_visible(False)
