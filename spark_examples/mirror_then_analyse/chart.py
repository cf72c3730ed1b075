"""The run of a mirror: offsets on both sides, how far mirror and query are behind, and how fast the mirror copies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

from spark_examples.common.chart_style import COLOURS, GRID, GROUND, INK, PALE
from spark_examples.mirror_then_analyse.watcher import Sample

BLUE, RED, GREEN, BROWN = COLOURS
SMOOTHED = 4
"""Samples that a rate is computed over."""
Step = tuple[float, str]


class Kinds(NamedTuple):
    """What the offsets of the two sides are at the end."""

    flights: int
    aborted: int
    source: int
    target: int


def draw(samples: Sequence[Sample], steps: Sequence[Step], kinds: Kinds, path: Path) -> None:
    """Writes the chart as a PNG file."""
    mpl.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK})
    figure = pyplot.figure(figsize=(11, 6.8), facecolor=GROUND)
    grid = figure.add_gridspec(2, 3, height_ratios=(1.5, 1), left=0.08, right=0.97, top=0.84, bottom=0.07, hspace=0.35)
    ends, lag, records, size = (figure.add_subplot(place) for place in (grid[0, :], grid[1, 0], grid[1, 1], grid[1, 2]))
    _draw_ends(ends, samples, steps, kinds)
    _draw_lag(lag, samples)
    _draw_rate(records, samples, [sample.target_end for sample in samples], "copied, thousand offsets/s", 1e3)
    _draw_rate(size, samples, [sample.target_bytes for sample in samples], "copied (gzip), kB/s", 1e3)
    for axis in (ends, lag, records, size):
        _dress(axis)
    figure.text(0.08, 0.94, "A topic of transactions, mirrored and analysed", fontsize=11.5, fontweight="bold")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _draw_ends(axis: Any, samples: Sequence[Sample], steps: Sequence[Step], kinds: Kinds) -> None:
    """How far each side is written and read, in its own offsets; between the ends is what the mirror leaves behind."""
    seconds = [sample.seconds for sample in samples]
    lines = (
        ("source: written", INK, "-", [sample.source_end for sample in samples]),
        ("source: read by the query", RED, "--", [sample.source_read for sample in samples]),
        ("target: written by the mirror", BLUE, "-", [sample.target_end for sample in samples]),
        ("target: read by the query", BROWN, "--", [sample.target_read for sample in samples]),
    )
    for label, colour, style, offsets in lines:
        axis.plot(seconds, [offset / 1e3 for offset in offsets], color=colour, linestyle=style, label=label)
    top = kinds.source / 1e3
    axis.set_ylim(0, top * 1.25)
    for number, (second, name) in enumerate(steps):
        axis.axvline(second, color=GRID, linewidth=1)
        axis.text(second, top * (1.23 if number % 2 else 1.15), f" {name}", fontsize=7.5, color=PALE, va="top")
    left_behind = f"{kinds.source - kinds.target:,} offsets\nleft behind "
    axis.text(seconds[-1], (kinds.source + kinds.target) / 2e3, left_behind, fontsize=8, ha="right", va="center")
    markers = kinds.source - kinds.flights - kinds.aborted
    axis.set_title(
        f"thousand offsets by seconds; source: {kinds.flights:,} flights, {kinds.aborted:,} aborted records, "
        f"{markers:,} markers; target: {kinds.flights:,} flights, {kinds.target - kinds.flights:,} markers",
        loc="left",
        fontsize=9,
        color=PALE,
    )
    axis.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(-0.015, 1.06), columnspacing=1)


def _draw_lag(axis: Any, samples: Sequence[Sample]) -> None:
    """The distance to the end of the source."""
    seconds = [sample.seconds for sample in samples]
    of_mirror = [(sample.source_end - sample.mirrored) / 1e3 for sample in samples]
    of_query = [(sample.source_end - sample.source_read) / 1e3 for sample in samples]
    axis.plot(seconds, of_mirror, color=BLUE, label="mirror")
    axis.plot(seconds, of_query, color=RED, linestyle="--", label="query")
    axis.set_title("lag on the source, thousand offsets", loc="left", fontsize=9, color=PALE)
    axis.legend(frameon=False, fontsize=8, loc="center right")


def _draw_rate(axis: Any, samples: Sequence[Sample], counts: Sequence[int], title: str, unit: float) -> None:
    """How much a count grows in a second."""
    pairs = list(zip(samples, counts, strict=True))
    middles, rates = [], []
    for (before, smaller), (after, larger) in zip(pairs, pairs[SMOOTHED:], strict=False):
        middles.append((before.seconds + after.seconds) / 2)
        rates.append(max(larger - smaller, 0) / (after.seconds - before.seconds) / unit)
    axis.fill_between(middles, rates, color=GREEN, alpha=0.3, linewidth=0)
    axis.plot(middles, rates, color=GREEN, linewidth=1)
    axis.set_title(title, loc="left", fontsize=9, color=PALE)
    axis.set_ylim(bottom=0)


def _dress(axis: Any) -> None:
    axis.tick_params(length=0, colors=PALE, labelsize=8)
    axis.yaxis.grid(visible=True, color=GRID)
    axis.set_axisbelow(True)
    axis.set_xlim(left=0)
    for side in axis.spines.values():
        side.set_visible(False)
