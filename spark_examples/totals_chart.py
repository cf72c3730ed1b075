"""Sums as bars: what the warehouse holds by month, and the same analysis of both sides of a mirror."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from spark_examples.chart import GROUND, INK, PALE

COLOURS = ("#9db4d0", "#c81e1e")
GRID = "#e4e8ec"
BARS_WIDTH = 0.8
"""Of the bars with one label together; 1 is the distance to the next label."""


def draw(title: str, labels: Sequence[str], sums: Mapping[str, Sequence[float]], unit: str, path: Path) -> None:
    """Writes a PNG file with a bar for each label and name of a sum, those with one label side by side."""
    mpl.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK})
    figure, axis = pyplot.subplots(figsize=(11, 3.6), facecolor=GROUND)
    figure.subplots_adjust(left=0.08, right=0.97, top=0.8, bottom=0.1)
    width = BARS_WIDTH / len(sums)
    for number, ((name, values), colour) in enumerate(zip(sums.items(), COLOURS, strict=False)):
        first = (number - (len(sums) - 1) / 2) * width
        places = [place + first for place in range(len(labels))]
        axis.bar(places, values, width=0.9 * width, color=colour, label=name)
    axis.set_xticks(range(len(labels)), labels)
    axis.set_title(unit, loc="left", fontsize=10)
    if len(sums) > 1:
        axis.legend(frameon=False, ncols=len(sums), loc="lower right", bbox_to_anchor=(1, 1), fontsize=9)
    _dress(axis)
    figure.text(0.08, 0.91, title, fontsize=11.5, fontweight="bold")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _dress(axis: Any) -> None:
    axis.tick_params(length=0, colors=PALE, labelsize=8)
    axis.yaxis.grid(visible=True, color=GRID)
    axis.set_axisbelow(True)
    for side in axis.spines.values():
        side.set_visible(False)
