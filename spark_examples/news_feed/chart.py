"""The news feed over time: recommendations by the topic that they came through, and the replies that followed."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

from spark_examples.common.chart_style import COLOURS, GRID, GROUND, INK, PALE
from spark_examples.data.movielens import DAY_MS
from spark_examples.news_feed.check import Entry
from spark_examples.news_feed.sender import GENRES, NEW_GENRE, OTHER

WEEK_MS = 7 * DAY_MS
MOST_WEEKS = 120
"""In a longer time, a bar is four weeks."""
OTHER_COLOUR = "#b8c2cc"


class Marks(NamedTuple):
    """The event times at which the query was restarted and the new genre got its topic."""

    restart_ms: int
    new_topic_ms: int | None


def _time(time_ms: float) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def _topic(entry: Entry, genres: Mapping[int, str], new_topic_ms: int | None) -> str:
    """The topic, by its genre, that a recommendation came through."""
    genre, time_ms = genres[entry["movie"]], entry["time_ms"]
    is_new = genre == NEW_GENRE and new_topic_ms is not None and time_ms >= new_topic_ms
    return genre if genre in GENRES or is_new else OTHER


def draw(entries: list[Entry], genres: Mapping[int, str], marks: Marks, path: Path) -> None:
    """Writes the chart as a PNG file; `genres` has the genre of each film."""
    mpl.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK})
    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(11, 5.8), sharex=True, facecolor=GROUND)
    figure.subplots_adjust(left=0.07, right=0.97, top=0.84, bottom=0.07, hspace=0.3)
    _draw_posts(upper, [entry for entry in entries if entry["kind"] == "recommendation"], genres, marks)
    _draw_replies(lower, [entry for entry in entries if entry["kind"] == "reply"])
    for axis in (upper, lower):
        axis.tick_params(length=0, colors=PALE, labelsize=8, labelbottom=True)
        axis.yaxis.grid(visible=True, color=GRID)
        axis.set_axisbelow(True)
        for side in axis.spines.values():
            side.set_visible(False)
    _mark(upper, lower, marks.restart_ms, "restart ", "right")
    if marks.new_topic_ms is not None:
        _mark(upper, lower, marks.new_topic_ms, f" new topic: {NEW_GENRE}", "left")
    figure.text(0.07, 0.94, "A news feed of people who rate films (MovieLens)", fontsize=11.5, fontweight="bold")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _mark(upper: Any, lower: Any, time_ms: int, text: str, side: str) -> None:
    """A dashed line through both panels, its text beside it at the top."""
    for axis in (upper, lower):
        axis.axvline(_time(time_ms), color=INK, linewidth=1, linestyle=(0, (4, 3)))
    top = upper.get_ylim()[1]
    upper.text(_time(time_ms), top, text, ha=side, va="top", fontsize=8, color=INK)


def _draw_posts(axis: Any, posts: list[Entry], genres: Mapping[int, str], marks: Marks) -> None:
    """Stacked bars by topic, each from a multiple of its width after the time of the new topic on."""
    origin_ms = marks.new_topic_ms or marks.restart_ms
    times = [entry["time_ms"] for entry in posts]
    width_ms = WEEK_MS if max(times) - min(times) <= MOST_WEEKS * WEEK_MS else 4 * WEEK_MS
    bars = Counter(
        (_topic(entry, genres, marks.new_topic_ms), (entry["time_ms"] - origin_ms) // width_ms) for entry in posts
    )
    numbers = sorted({number for _, number in bars})
    middles = [_time(origin_ms + (number + 0.5) * width_ms) for number in numbers]
    bottoms = [0] * len(numbers)
    for topic, colour in zip((OTHER, *GENRES, NEW_GENRE), (OTHER_COLOUR, *COLOURS), strict=True):
        heights = [bars[topic, number] for number in numbers]
        width_days = 0.9 * width_ms / DAY_MS
        axis.bar(middles, heights, width_days, bottoms, color=colour, label=topic)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    axis.set_ylim(0, 1.12 * max(bottoms))
    unit = "week" if width_ms == WEEK_MS else "four weeks"
    axis.set_title(
        f"{len(posts):,} recommendations to followers by {unit}, and the topic news-posts-…", loc="left", fontsize=10
    )
    axis.legend(frameon=False, fontsize=8, ncols=5, loc="lower right", bbox_to_anchor=(1.01, 0.98), columnspacing=1)


def _draw_replies(axis: Any, replies: list[Entry]) -> None:
    """A circle for those of one day that came so many days after their recommendations, its area for their number."""
    circles = Counter((entry["time_ms"] // DAY_MS, entry["after_ms"] // DAY_MS) for entry in replies)
    times = [_time((day + 0.5) * DAY_MS) for day, _ in circles]
    days = [after + 0.5 for _, after in circles]
    sizes = [6 * count for count in circles.values()]
    axis.scatter(times, days, s=sizes, alpha=0.45, color=COLOURS[1], linewidths=0)
    title = (
        f"{len(replies):,} replies, by the days from the recommendation to the follower's rating; area: their number"
    )
    axis.set_title(title, loc="left", fontsize=10)
