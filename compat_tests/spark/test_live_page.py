"""The live page shows rows as they are, and is there only as long as it should be."""

import json
import urllib.error
import urllib.request

import pytest

pytest.importorskip("pyspark", reason="comes with the spark extra")

from spark_examples.monitoring.live_page import LiveState, live_page

STATE = LiveState([{"query": "<history>", "batch": None, "rows": 7}], [])
pytestmark = pytest.mark.spark


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=20) as answer:
        text: str = answer.read().decode()
    return text


def test_rows_are_shown_and_escaped() -> None:
    with live_page("A & B", 0, lambda: STATE) as address:
        page = get(address)
        assert json.loads(get(f"{address}state.json")) == {"queries": STATE.queries, "alerts": []}
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(f"{address}else")
    assert "<h1>A &amp; B</h1>" in page
    assert "<tr><td>&lt;history&gt;</td><td>–</td><td>7</td></tr>" in page
    assert "none yet" in page
    with pytest.raises(urllib.error.URLError):
        get(address)


def test_a_port_that_is_taken_is_an_error() -> None:
    with live_page("one", 0, lambda: STATE) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        with pytest.raises(OSError, match="in use"), live_page("two", port, lambda: STATE):
            pass
