"""Fetch sessions of a mirror: what its requests name, how large they are, and sessions that the source forgets."""

from collections.abc import Iterator

import pytest

from kafkapy.clients.mirror import reading
from kafkapy.clients.mirror.sessions import SourceSession, Wish
from kafkapy.protocol.client_core import ClientCore
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkapy.testing import Broker
from tests.clients.mirrors import mirrored

NEWEST = 11
A, B, C = ("t", 0), ("t", 1), ("u", 0)


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each Fetch request of the mirror."""
    found: list[int] = []
    encode = ClientCore.request

    def measured(core: ClientCore, request: object, *arguments: object, **options: object) -> bytes:
        data = encode(core, request, *arguments, **options)  # type: ignore[arg-type]  # as they come
        if isinstance(request, FetchRequest):
            found.append(len(data))
        return data

    monkeypatch.setattr(ClientCore, "request", measured)
    monkeypatch.setattr(reading, "WAIT_MS", 1)
    return found


Named = tuple[int, int, list[tuple[str, int, int]], list[tuple[str, int]]]


def _named(session: SourceSession, *, version: int = NEWEST, **wishes: int) -> Named:
    """Id and epoch of the next request, the partitions with their offsets, and those that it removes."""
    places = {"a": A, "b": B, "c": C}
    request = FetchRequest()
    session.name(request, {places[key]: Wish(offset, 100) for key, offset in wishes.items()}, version=version)
    asked = [(each.topic, part.partition, part.fetch_offset) for each in request.topics for part in each.partitions]
    gone = [(each.topic, index) for each in request.forgotten_topics_data for index in each.partitions]
    return request.session_id, request.session_epoch, asked, gone


def test_a_session_names_what_has_changed() -> None:
    session = SourceSession()
    assert _named(session, a=5, b=6) == (0, 0, [(*A, 5), (*B, 6)], [])
    assert session.answered(FetchResponse(session_id=77))
    assert _named(session, a=5, b=6) == (77, 1, [], [])
    assert session.answered(FetchResponse(session_id=77))
    assert _named(session, a=9, c=1) == (77, 2, [(*A, 9), (*C, 1)], [B])
    assert session.answered(FetchResponse(session_id=77))
    assert _named(session, a=9, c=1) == (77, 3, [], [])


@pytest.mark.parametrize(
    ("code", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77)],
)
def test_a_session_that_has_ended_begins_anew(code: ErrorCode, session_id: int) -> None:
    session = SourceSession()
    _named(session, a=5, b=6)
    session.answered(FetchResponse(session_id=77))
    _named(session, a=7, b=6)
    assert not session.answered(FetchResponse(error_code=code))
    assert _named(session, a=7, b=6) == (session_id, 0, [(*A, 7), (*B, 6)], [])


def test_a_source_without_sessions_gets_all_each_time() -> None:
    session = SourceSession()
    for _ in range(2):
        assert _named(session, a=5) == (0, 0, [(*A, 5)], [])
        session.answered(FetchResponse(session_id=0))
        assert _named(session, version=6, a=5) == (0, -1, [(*A, 5)], [])


def test_epochs_begin_again_with_1() -> None:
    session = SourceSession()
    _named(session, a=1)
    session._epoch = 0x7FFF_FFFF
    session.answered(FetchResponse(session_id=77))
    assert _named(session, a=1)[:2] == (77, 1)


def test_idle_partitions_cost_nothing(source: Broker, target: Broker, sizes: list[int]) -> None:
    source.create_topic("idle", 200)
    source.create_topic("busy", 1)
    with mirrored(source, target, "idle|busy", once=False) as running:
        for _ in range(3):
            running.mirror.step()
        assert sizes[0] > 200 * 20
        assert max(sizes[1:]) < 100
        source.produce("busy", b"v")
        while not running.mirror.progress.records:
            running.mirror.step()
        running.mirror.step()
        assert max(sizes[1:]) < 120


@pytest.mark.parametrize("code", ["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"])
def test_records_come_after_a_session_is_lost(source: Broker, target: Broker, sizes: list[int], code: str) -> None:
    topic = f"lost-{code}"
    source.create_topic(topic, 3)
    with mirrored(source, target, topic, once=False) as running:
        for at in range(6):
            source.produce(topic, b"%d" % at, partition=at % 3)
            with source.faults.error(code, api="Fetch", count=1):
                while running.mirror.progress.records <= at:
                    running.mirror.step()
    assert len(running.lines) == 1
    assert sorted(each.value or b"" for each in target.records(topic)) == [b"%d" % at for at in range(6)]


def test_an_idle_round_does_not_name_each_partition(
    source: Broker, target: Broker, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions are ordered, and their wishes made, only when a position or a leader changes, or a session ends."""
    made: list[Wish] = []

    def wish(offset: int, max_bytes: int) -> Wish:
        made.append(Wish(offset, max_bytes))
        return made[-1]

    monkeypatch.setattr(reading, "Wish", wish)
    source.create_topic("still", 50)
    with mirrored(source, target, "still", once=False, refresh_every_s=1000) as running:
        for _ in range(4):
            running.mirror.step()
        assert len(made) == 50
        source.produce("still", b"v", partition=7)
        while not running.mirror.progress.records:
            running.mirror.step()
        running.mirror.step()
        assert len(made) == 100
        with source.faults.error("FETCH_SESSION_ID_NOT_FOUND", api="Fetch", count=1):
            running.mirror.step()
        running.mirror.step()
        assert len(made) == 150
        assert sizes[-1] > 50 * 20
        assert running.mirror.progress.lag == 0
