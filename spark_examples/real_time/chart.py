"""Latency over time: a dot for each flight, a colour for each trigger, ms on a logarithmic axis."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

from spark_examples.common.chart_style import COLOURS, GRID, GROUND, INK, PALE


def draw(latencies: Mapping[str, Sequence[tuple[float, int]]], path: Path) -> None:
    """Writes the chart as a PNG file: by trigger, the seconds at which flights were sent and the ms that they took."""
    mpl.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK})
    figure, axis = pyplot.subplots(figsize=(11, 4.6), facecolor=GROUND)
    figure.subplots_adjust(left=0.08, right=0.97, top=0.82, bottom=0.13)
    for number, (trigger, found) in enumerate(latencies.items()):
        median = sorted(ms for _, ms in found)[len(found) // 2]
        seconds, ms = [at for at, _ in found], [max(ms, 1) for _, ms in found]
        axis.scatter(seconds, ms, s=7, color=COLOURS[number], linewidths=0)
        label = f"●  {trigger}: {median:,} ms in the median"
        figure.text(0.08 + 0.33 * number, 0.855, label, color=COLOURS[number], fontsize=9)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:,.0f} ms"))
    axis.set_xlabel("seconds since the first flight", color=PALE, fontsize=8)
    axis.tick_params(which="both", length=0, colors=PALE, labelsize=8)
    axis.yaxis.grid(visible=True, color=GRID)
    axis.set_axisbelow(True)
    for side in axis.spines.values():
        side.set_visible(False)
    title = "How long a flight takes from one topic through Spark to the next, by the trigger of the query"
    figure.text(0.08, 0.93, title, fontsize=11.5, fontweight="bold")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
