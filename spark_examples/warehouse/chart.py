"""A load of the warehouse: rows and lag over time, and which load brought which offsets of each partition."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

from spark_examples.common.chart_style import COLOURS, GRID, GROUND, INK, PALE


class Committed(NamedTuple):
    """The table after a load."""

    seconds: float
    """Since the first load began."""
    rows: int
    left: int
    """Offsets that the topic held beyond it."""
    offsets: dict[int, int]
    """By partition, the offset after the last one that is loaded."""


def draw(loads: Sequence[Committed], path: Path) -> None:
    """Writes the chart as a PNG file; the first entry is the table before the first load."""
    mpl.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK})
    figure, (progress, offsets) = pyplot.subplots(1, 2, figsize=(11, 3.8), facecolor=GROUND)
    figure.subplots_adjust(left=0.08, right=0.97, top=0.74, bottom=0.14, wspace=0.2)
    seconds = [load.seconds for load in loads]
    for colour, label, values in (
        (COLOURS[0], "rows in the table", [load.rows for load in loads]),
        (COLOURS[1], "offsets left (lag)", [load.left for load in loads]),
    ):
        progress.step(seconds, values, where="post", color=colour, label=label)
        progress.plot(seconds, values, "o", color=colour, markersize=3)
    _dress(progress, "by seconds since the first load began: a dot is a commit")
    progress.legend(frameon=False, fontsize=8, loc="center left")
    for number, (before, load) in enumerate(pairwise(loads)):
        for partition, end in load.offsets.items():
            first = before.offsets.get(partition, 0)
            offsets.barh(partition, end - first, left=first, height=0.6, color=COLOURS[number % 2], alpha=0.7)
    offsets.set_yticks(sorted(loads[-1].offsets))
    offsets.invert_yaxis()
    _dress(offsets, "offsets of each partition, by load")
    rows, seconds_all = loads[-1].rows - loads[0].rows, max(loads[-1].seconds, 0.1)
    title = f"{rows:,} rows in {len(loads) - 1} loads, {rows / seconds_all:,.0f} a second, each offset once"
    figure.text(0.08, 0.9, title, fontsize=11.5, fontweight="bold")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _dress(axis: Any, title: str) -> None:
    axis.set_title(title, loc="left", fontsize=9, color=PALE)
    axis.tick_params(length=0, colors=PALE, labelsize=8)
    axis.grid(visible=True, color=GRID)
    axis.set_axisbelow(True)
    for side in axis.spines.values():
        side.set_visible(False)
