"""The news feed over the years: entries by month, and a dot per reply, how long after the recommendation it came."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl

from spark_examples.chart import GROUND, INK, PALE
from spark_examples.movielens import DAY_MS

RECOMMENDATION_COLOUR, REPLY_COLOUR = "#9db4d0", "#c81e1e"
GRID = "#e4e8ec"


def _time(entry: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(entry["time_ms"] / 1000, UTC)


def _by_month(entries: Iterable[Mapping[str, Any]]) -> dict[datetime, int]:
    counts = Counter(_time(entry).replace(day=1, hour=0, minute=0, second=0, microsecond=0) for entry in entries)
    return dict(sorted(counts.items()))


def draw(entries: list[dict[str, Any]], path: Path) -> None:
    """Writes the chart as a PNG file."""
    mpl.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK})
    replies = [entry for entry in entries if entry["kind"] == "reply"]
    months = _by_month(entry for entry in entries if entry["kind"] == "recommendation")
    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(11, 5.6), sharex=True, facecolor=GROUND)
    figure.subplots_adjust(left=0.08, right=0.97, top=0.86, bottom=0.07, hspace=0.28)
    upper.bar(list(months), list(months.values()), width=27, color=RECOMMENDATION_COLOUR)
    upper.set_title(f"{sum(months.values()):,} recommendations in the feeds, by month", loc="left", fontsize=10)
    days = [entry["after_ms"] / DAY_MS for entry in replies]
    lower.scatter([_time(entry) for entry in replies], days, s=5, alpha=0.35, color=REPLY_COLOUR, linewidths=0)
    lower.set_title(f"{len(replies):,} replies: a follower rated the film, so many days later", loc="left", fontsize=10)
    for axis in (upper, lower):
        axis.tick_params(length=0, colors=PALE, labelsize=8, labelbottom=True)
        axis.yaxis.grid(visible=True, color=GRID)
        axis.set_axisbelow(True)
        for side in axis.spines.values():
            side.set_visible(False)
    figure.text(0.08, 0.94, "A news feed of people who rate films (MovieLens)", fontsize=11.5, fontweight="bold")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
