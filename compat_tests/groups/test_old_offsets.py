"""Offsets in the metadata tree (version 0) beside those in the log, as the clients of the first releases use them."""

import pytest

from compat_tests.groups.test_offsets import commit, fetch
from compat_tests.groups.wire import Wire


@pytest.mark.differs(
    "kafka-3.9.1", reason="without ZooKeeper there is no place for offsets of version 0: UNSUPPORTED_VERSION (35)"
)
@pytest.mark.differs("kafka-4.4.0", reason="OffsetCommit begins with version 2, OffsetFetch with 1 (KIP-896)")
def test_both_places_keep_their_offsets(wire: Wire, topic_name: str) -> None:
    """A client that commits to both (dual.commit.enabled) while it moves finds its offset at either."""
    assert commit(wire, topic_name, 0) == 0
    assert fetch(wire, topic_name, 1) == [("t", 0, -1, "", 0), ("t", 5, -1, "", 0)]
    assert commit(wire, topic_name, 1) == 0
    assert fetch(wire, topic_name, 1)[0] == fetch(wire, topic_name, 0)[0] == ("t", 0, 60, "", 0)
    assert fetch(wire, topic_name, 0)[1] == ("t", 5, -1, "", 3)


@pytest.mark.differs(
    "kafka-3.9.1", reason="without ZooKeeper there is no place for offsets of version 0: UNSUPPORTED_VERSION (35)"
)
@pytest.mark.differs("kafka-4.4.0", reason="OffsetCommit begins with version 2, OffsetFetch with 1 (KIP-896)")
@pytest.mark.parametrize("end", ["\U0001f642", "\ue000", "\x7f"])
def test_a_group_whose_name_is_no_path_has_no_offset_in_the_tree(wire: Wire, topic_name: str, end: str) -> None:
    """ZooKeeper sees letters above U+FFFF as the surrogates that Java writes them with, and takes none."""
    assert commit(wire, topic_name + end, 0) == -1
    assert fetch(wire, topic_name + end, 0)[0] == ("t", 0, -1, "", -1)
    assert commit(wire, topic_name + end, 2) == 0
