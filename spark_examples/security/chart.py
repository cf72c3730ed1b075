"""The traffic of a broker: a line per address, seconds across, colour for requests in the second; blocks under it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.colors import LogNorm

from spark_examples.common.chart_style import EMPTY, GROUND, INK, PALE

BLOCK_COLOURS = {"rate": "#c81e1e", "topics": "#7c3aed"}
WINDOW_MS = 1000


def draw(rates: Mapping[tuple[str, int], tuple[int, int, int]], blocks: Sequence[Any], path: Path) -> None:
    """Writes the chart as a PNG file; nothing if there are no rates yet."""
    if not rates:
        return
    mpl.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK})
    addresses = sorted({address for address, _ in rates}, reverse=True)
    begin = min(start for _, start in rates)
    end_s = (max(start for _, start in rates) - begin) / WINDOW_MS + 5
    figure, axis = pyplot.subplots(figsize=(11, 1.6 + 0.45 * len(addresses)), facecolor=GROUND)
    figure.subplots_adjust(left=0.11, right=0.9, top=0.8, bottom=0.13)
    norm = LogNorm(1, max(10, *(count for count, _, _ in rates.values())))
    colours = mpl.colormaps["YlGnBu"]
    for (address, start), (count, _, _) in rates.items():
        place = (start - begin) / WINDOW_MS
        axis.barh(addresses.index(address), 0.94, left=place, height=0.5, color=colours(norm(count)))
    for block in blocks:
        since = (block.since_ms - begin) / WINDOW_MS
        until = end_s if block.until_ms is None else (block.until_ms - begin) / WINDOW_MS
        place = addresses.index(block.address) - 0.36
        axis.barh(place, min(until, end_s) - since, left=since, height=0.14, color=BLOCK_COLOURS[block.reason])
    axis.set_yticks(range(len(addresses)), addresses)
    axis.set_xlim(0, end_s)
    axis.set_xlabel("seconds", color=PALE, fontsize=8)
    axis.tick_params(length=0, colors=PALE, labelsize=8)
    axis.xaxis.grid(visible=True, color=EMPTY)
    axis.set_axisbelow(True)
    for side in axis.spines.values():
        side.set_visible(False)
    bar = figure.colorbar(mpl.cm.ScalarMappable(norm, colours), cax=figure.add_axes((0.92, 0.13, 0.014, 0.67)))
    bar.set_label("requests in the second", color=PALE, fontsize=8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=PALE, length=0, labelsize=8)
    figure.text(0.11, 0.92, "Who asks a broker how often, and who was blocked", fontsize=11.5, fontweight="bold")
    figure.text(0.11, 0.845, "▬ blocked: too many requests in a second", color=BLOCK_COLOURS["rate"], fontsize=8.5)
    figure.text(0.42, 0.845, "▬ blocked: looked at too many topics", color=BLOCK_COLOURS["topics"], fontsize=8.5)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
