"""A mirror of partitions whose last records compaction has removed (KAFKA-17076)."""

from collections.abc import Iterator

import pytest

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.mirror import reading
from kafkapy.clients.mirror.positions import positions
from kafkapy.clients.mirror.reading import FetchedBatches, SourceReader
from kafkapy.protocol.constants import EARLIEST_LOCAL
from kafkapy.protocol.messages.fetch import FetchResponse, PartitionData
from kafkapy.records.batch import iterate_headers
from kafkapy.testing import Broker
from tests.clients.mirrors import copied, mirrored, patterns
from tests.clients.test_mirror_groups import _get, _set

END = 5


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source has no record between the first one and its end."""
    whole = reading._batches

    def without_the_last(answer: PartitionData) -> FetchedBatches:
        found = whole(answer)
        kept = [header.size for position, header in iterate_headers(found.records) if header.base_offset == 0]
        return found._replace(records=found.records[: sum(kept)])

    monkeypatch.setattr(reading, "_batches", without_the_last)


def _fill(source: Broker, topic: str) -> None:
    source.create_topic(topic, 1)
    for at in range(END):
        source.produce(topic, b"%d" % at)


@pytest.mark.usefixtures("removed")
@pytest.mark.parametrize("transactional_id", [None, "of-empty-ends"], ids=["at-least-once", "exactly-once"])
def test_once_ends(source: Broker, target: Broker, transactional_id: str | None) -> None:
    topic = f"once-{transactional_id}"
    _fill(source, topic)
    _set(source, topic, topic, END)
    found = copied(source, target, topic, groups=patterns(topic), transactional_id=transactional_id)
    assert (found.mirror.progress.records, found.mirror.progress.lag) == (1, 0)
    assert _get(target, topic, topic) == 1
    with ClusterClient(target.bootstrap) as client:
        assert positions(client, "kafkapy-mirror")[topic, 0].offset == END


def test_records_that_come_later_are_copied(
    source: Broker, target: Broker, removed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(source, "later")
    with mirrored(source, target, "later", once=False) as running:
        while running.mirror.progress.lag or not running.mirror.progress.records:
            running.mirror.step()
        monkeypatch.undo()
        source.produce("later", b"new")
        while running.mirror.progress.records < 2:
            running.mirror.step()
    assert [each.value for each in target.records("later")] == [b"0", b"new"]


def test_a_tiered_source_is_not_taken_for_empty(
    source: Broker, target: Broker, removed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(source, "tiered")
    asked = SourceReader.offsets

    def of_tiers(
        self: SourceReader, places: list[tuple[str, int]], leaders: dict[tuple[str, int], int], at: int
    ) -> object:
        return dict.fromkeys(places, 3) if at == EARLIEST_LOCAL else asked(self, places, leaders, at)

    monkeypatch.setattr(SourceReader, "offsets", of_tiers)
    with mirrored(source, target, "tiered", once=False) as running:
        for _ in range(5):
            running.mirror.step()
        assert running.mirror.progress.lag == END - 1


def test_a_response_without_room_is_not_taken_for_empty(source: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    for topic in ("room-a", "room-b"):
        _fill(source, topic)
    places = [("room-a", 0), ("room-b", 0)]
    with ClusterClient(source.bootstrap) as client:
        leaders = dict.fromkeys(places, client.node_ids()[0])
        reader = SourceReader(client, 1)
        found = reader.fetch(dict.fromkeys(places, 0), leaders)
        assert sorted(len(each.records) > 0 for each in found.batches.values()) == [False, True]
        assert found.without_records == []
        reader.reset()
        found = reader.fetch({places[0]: END, places[1]: END + 1}, leaders)
        assert (found.without_records, found.out_of_range) == ([], [places[1]])
        reader.reset()
        found = reader.fetch(dict.fromkeys(places, END), leaders)
        assert [sorted(each) for each in found.without_records] == [places]
        reader.reset()
        whole = FetchResponse.read

        def throttled(*arguments: object) -> FetchResponse:
            response = whole(*arguments)
            response.throttle_time_ms = 1
            return response

        monkeypatch.setattr(FetchResponse, "read", throttled)
        assert reader.fetch(dict.fromkeys(places, END), leaders).without_records == []


def test_a_broker_without_tiered_storage_tells_its_log_start(source: Broker) -> None:
    _fill(source, "starts")
    with ClusterClient(source.bootstrap) as client:
        reader = SourceReader(client, 1000)
        leaders = {("starts", 0): client.node_ids()[0]}
        assert reader.offsets(leaders, leaders, EARLIEST_LOCAL) == {("starts", 0): 0}
