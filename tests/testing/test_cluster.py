"""The cluster in a test, which has exactly one broker."""

import pytest

from kafkapy.testing import BrokerStartError, Cluster


def test_a_cluster_has_one_member() -> None:
    with Cluster(topics={"t": 2}) as cluster:
        assert cluster.bootstrap == cluster.controller.bootstrap
        assert [broker.topics() for broker in cluster.brokers] == [{"t": 2}]
    assert not cluster.controller.is_running


def test_more_members_are_refused_with_advice() -> None:
    with pytest.raises(BrokerStartError, match=r"3 members can't be had: .* leave it at 1"):
        Cluster(3)
