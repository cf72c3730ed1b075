"""A page that shows what streaming queries do now, for as long as they run; nothing but the standard library.

`/` is the page, which loads itself anew each second, `/state.json` the same for programs.
"""

import ast
import html
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

HOST = "127.0.0.1"
SHOWN_ALERTS = 10
Row = dict[str, Any]
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="1"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1f2933; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }}
table {{ border-collapse: collapse; width: 100%; margin-bottom: 2rem }}
th, td {{ text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #d9dfe5 }}
</style></head><body><h1>{title}</h1>
<h2>Queries</h2>{queries}<h2>Last alerts</h2>{alerts}</body></html>
"""


class LiveState(NamedTuple):
    """The queries that run, and the newest alerts; each row is the cells of a table by their headings."""

    queries: list[Row]
    alerts: list[Row]


def query_rows(spark: SparkSession) -> list[Row]:
    """By query: its last micro-batch, its rate, and how many offsets it has still to read."""
    rows = []
    for query in spark.streams.active:
        progress = query.lastProgress
        if progress is None:
            rows.append({"query": query.name, "batch": None, "rows": 0, "rows per second": 0, "offsets left": None})
            continue
        ends, latest = (_offsets(progress["sources"], name) for name in ("endOffset", "latestOffset"))
        rows.append(
            {
                "query": query.name,
                "batch": progress["batchId"],
                "rows": progress["numInputRows"],
                "rows per second": round(progress["processedRowsPerSecond"] or 0),
                "offsets left": sum(latest[place] - ends.get(place, 0) for place in latest),
            }
        )
    return rows


def _offsets(sources: Any, name: str) -> dict[tuple[str, str], int]:
    """By topic and partition. PySpark 4 gives the offsets of a Kafka source as the text of a Python dict, or None."""
    found = {}
    for source in sources:
        for topic, partitions in (ast.literal_eval(source[name] or "None") or {}).items():
            found.update({(topic, partition): offset for partition, offset in partitions.items()})
    return found


def table(rows: list[Row]) -> str:
    """HTML of these rows, with whatever is in them escaped."""
    if not rows:
        return "<p>none yet</p>"
    heads = "".join(f"<th>{html.escape(str(name))}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row.values())}</tr>" for row in rows)
    return f"<table><tr>{heads}</tr>{body}</table>"


def _text(cell: object) -> str:
    return "–" if cell is None else html.escape(str(cell))


@contextmanager
def live_page(title: str, port: int, state: Callable[[], LiveState]) -> Iterator[str]:
    """Serves the page meanwhile, on loopback; its address. Port 0 is any free one. Raises OSError if it is taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in ("/", "/state.json"):
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            now = state()
            if self.path == "/":
                kind = "text/html; charset=utf-8"
                text = PAGE.format(title=html.escape(title), queries=table(now.queries), alerts=table(now.alerts))
            else:
                kind, text = "application/json", json.dumps(now._asdict())
            content = text.encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Keeps the terminal for the pipeline."""

    with ThreadingHTTPServer((HOST, port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
