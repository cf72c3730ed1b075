"""docs/testing.md: the methods that it names exist. Its programs run in ``tests/test_pages.py``."""

import re
from pathlib import Path

from kafkapy.testing import Broker, Cluster
from kafkapy.testing.cluster import ClusterBroker

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "testing.md"


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
