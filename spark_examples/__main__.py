"""Runs the demonstration of a pipeline, or lists them: `python -m spark_examples NAME [OPTION …]`."""

import importlib
import sys
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from spark_examples import mirror_then_analyse, monitoring, news_feed, ranking, real_time, security, sessions, warehouse


class Pipeline(NamedTuple):
    """A line of the list."""

    sentence: str
    minutes: str
    """On two cores, the first start apart."""


PIPELINES = {
    "monitoring": Pipeline(str(monitoring.__doc__), "1"),
    "warehouse": Pipeline(str(warehouse.__doc__), "1½"),
    "ranking": Pipeline(str(ranking.__doc__), "1½"),
    "news_feed": Pipeline(str(news_feed.__doc__), "1½"),
    "sessions": Pipeline(str(sessions.__doc__), "1"),
    "security": Pipeline(str(security.__doc__), "1½"),
    "real_time": Pipeline(f"{real_time.__doc__} It needs PySpark 4.2, which make sets up for it.", "2"),
    "mirror_then_analyse": Pipeline(str(mirror_then_analyse.__doc__), "1½"),
}


def show_list() -> None:
    table = Table(title="make spark NAME=…", title_justify="left")
    for heading in ("name", "what it does", "minutes"):
        table.add_column(heading)
    for name, pipeline in PIPELINES.items():
        table.add_row(name, pipeline.sentence, pipeline.minutes)
    Console().print(table)


def main() -> int:
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        show_list()
        return 0
    name, *options = words
    if name not in PIPELINES:
        print(f"There is no pipeline {name}. These are there:", file=sys.stderr)
        show_list()
        return 2
    status: int = importlib.import_module(f"spark_examples.{name}.demonstration").main(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
