"""docs/testing.md: its Python examples run, and the methods that it names exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkapy.testing import Broker, Cluster
from kafkapy.testing.cluster import ClusterBroker

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "testing.md"
EXAMPLE = re.compile(r"(?:<!-- file: (\S+) -->\n)?```python\n(.*?)```", re.DOTALL)
EXAMPLES = [(name, code) for name, code in EXAMPLE.findall(PAGE.read_text())]


def run(arguments: list[str], directory: Path) -> None:
    environment = {**os.environ, "COVERAGE_PROCESS_START": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-W", "ignore", *arguments]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("at", range(len(EXAMPLES)))
def test_each_example_runs(at: int, tmp_path: Path) -> None:
    name, code = EXAMPLES[at]
    path = tmp_path / (name or "example.py")
    path.write_text(code)
    run(["-m", "pytest", "-p", "kafkapy.testing.plugin", str(path)] if name else [str(path)], tmp_path)


def test_the_methods_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`(?:kafka_broker\.)?([a-z_]+)\([^`]*\)`", PAGE.read_text()))
    named |= set(re.findall(r"\b([a-z_]+)\(\w*(?:, \w+)*\)`,", PAGE.read_text()))
    assert {"records", "lag", "kill"} <= named
    kinds = (Broker, Cluster, ClusterBroker)
    assert {name for name in named if not any(hasattr(kind, name) for kind in kinds)} == set()


def test_the_members_that_the_page_names_of_a_cluster_exist() -> None:
    with Cluster(1) as cluster:
        kinds = {"cluster": cluster, "cluster.brokers[n]": cluster.brokers[0]}
        of_clusters = set(re.findall(r"\b(cluster(?:\.brokers\[n\])?)\.([a-z_]+)\b", PAGE.read_text()))
        assert {("cluster", "leader"), ("cluster.brokers[n]", "pause")} <= of_clusters
        assert {each for each in of_clusters if not hasattr(kinds[each[0]], each[1])} == set()
