"""Rankings of a year: a strip per airport, days across, its most frequent destinations down, colour for lateness."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from spark_examples.common.chart_style import EMPTY, GROUND, INK, MONTHS, PALE
from spark_examples.data.flights import AIRPORTS, DAYS, YEAR

ROWS = 6
Entry = tuple[str, int, float]
"""Destination, day of the year from 0, share of late departures."""


def _entries(rankings: Iterable[Mapping[str, Any]], origin: str) -> list[Entry]:
    first = date(YEAR, 1, 1)
    return [
        (entry["destination"], (date.fromisoformat(ranking["day"]) - first).days, entry["late_share"])
        for ranking in rankings
        if ranking["origin"] == origin
        for entry in ranking["top"]
    ]


def _grid(entries: list[Entry]) -> tuple[list[str], NDArray[np.float64]]:
    """The destinations that were ranked most often, and their lateness by day; NaN where they were not ranked."""
    names = [name for name, _ in Counter(name for name, _, _ in entries).most_common(ROWS)]
    grid = np.full((len(names), DAYS), np.nan)
    for name, day, share in entries:
        if name in names:
            grid[names.index(name), day] = share
    return names, grid


def draw(rankings: list[dict[str, Any]], path: Path) -> None:
    """Writes the chart as a PNG file."""
    mpl.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK})
    figure, axes = pyplot.subplots(len(AIRPORTS), 1, figsize=(11, 5.6), sharex=True, facecolor=GROUND)
    figure.subplots_adjust(left=0.06, right=0.9, top=0.85, bottom=0.07, hspace=0.35)
    colours = mpl.colormaps["YlOrRd"].with_extremes(bad=EMPTY)
    image: Any = None
    for axis, (origin, name) in zip(axes, AIRPORTS.items(), strict=True):
        names, grid = _grid(_entries(rankings, origin))
        image = axis.imshow(grid, aspect="auto", cmap=colours, vmin=0, vmax=0.8, interpolation="nearest")
        axis.set_yticks(range(len(names)), names)
        axis.set_xticks([(month + 0.5) * DAYS / 12 for month in range(12)], MONTHS)
        axis.tick_params(length=0, colors=PALE, labelbottom=True, labelsize=8)
        axis.set_title(f"{name} ({origin})", loc="left", fontsize=10, fontweight="bold")
        for side in axis.spines.values():
            side.set_visible(False)
    bar = figure.colorbar(image, cax=figure.add_axes((0.92, 0.07, 0.014, 0.78)), extend="max")
    bar.set_label("share of flights that left 15 minutes late or more", color=PALE, fontsize=8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=PALE, length=0, labelsize=8)
    title = f"Where most flights went, {YEAR}: the days on which a destination was among the first three of its airport"
    figure.text(0.06, 0.94, title, fontsize=11.5, fontweight="bold")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
