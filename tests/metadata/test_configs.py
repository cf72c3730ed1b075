import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.change_notes import NOTE_LIFETIME_MS, NOTES_AT_ONCE, RETRY_MS
from kafkapy.metadata.configs import ConfigAdmin
from kafkapy.metadata.embedded import EmbeddedSession, EmbeddedStore
from kafkapy.metadata.registration import ensure_persistent_paths
from kafkapy.metadata.store import Node, StoreRefusedError, ensure_path
from kafkapy.metadata.znodes import ConfigChangesZNode, ForeignDataError
from kafkapy.testing.clock import ManualClock


class Heard:
    def __init__(self) -> None:
        self.topics: list[tuple[str, Mapping[str, str]]] = []
        self.brokers: list[tuple[int | None, Mapping[str, str]]] = []

    def topic_config_changed(self, topic: str, overrides: Mapping[str, str]) -> None:
        self.topics.append((topic, overrides))

    def broker_config_changed(self, broker_id: int | None, overrides: Mapping[str, str]) -> None:
        self.brokers.append((broker_id, overrides))


class Side:
    """One broker's ConfigAdmin."""

    def __init__(self, store: EmbeddedStore, clock: ManualClock, broker_id: int) -> None:
        self.session: EmbeddedSession = store.session()
        self.config = BrokerConfig.from_properties({"broker.id": str(broker_id)})
        self.admin = ConfigAdmin(self.config, clock, self.session)
        self.heard = Heard()
        self.admin.add_listener(self.heard)


async def _two() -> tuple[ManualClock, Side, Side]:
    clock = ManualClock()
    store = EmbeddedStore(None, clock)
    sides = Side(store, clock, 1), Side(store, clock, 2)
    await ensure_persistent_paths(sides[0].session)
    for side in sides:
        await side.admin.load([])
        await side.admin.start()
        side.heard.brokers.clear()
    return clock, *sides


async def _rounds() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_change_reaches_every_broker() -> None:
    async def main() -> None:
        _, one, two = await _two()
        assert await one.admin.topic_overrides("t") == {}
        assert one.admin.cached_topic_overrides("t") == {}
        await one.admin.set_topic_overrides("t", {"retention.ms": "1"})
        await two.admin.set_topic_overrides("t", {"retention.ms": "2"})
        await one.admin.set_broker_overrides(None, {"log.cleaner.threads": "3"})
        await one.admin.set_broker_overrides(2, {"log.cleaner.threads": "4"})
        await _rounds()
        for side in (one, two):
            assert side.heard.topics[-1] == ("t", {"retention.ms": "2"})
            assert side.admin.cached_topic_overrides("t") == {"retention.ms": "2"}
            assert side.heard.brokers[0] == (None, {"log.cleaner.threads": "3"})
        assert one.config["log.cleaner.threads"] == 3
        assert two.config["log.cleaner.threads"] == 4
        assert len(one.heard.brokers) == 1
        assert two.heard.brokers[1:] == [(2, {"log.cleaner.threads": "4"})]
        assert await two.admin.broker_overrides(2) == {"log.cleaner.threads": "4"}
        assert await two.admin.broker_overrides(None) == {"log.cleaner.threads": "3"}
        names = await one.session.children(ConfigChangesZNode.PATH)
        assert sorted(names) == [f"config_change_{number:010}" for number in range(4)]
        await one.admin.stop()
        await one.admin.stop()

    asyncio.run(main())


def test_configurations_of_groups_reach_every_broker() -> None:
    """Their notes are not among those that brokers of Apache Kafka read."""

    async def main() -> None:
        clock, one, two = await _two()
        assert await one.admin.group_overrides("a/b") == {}
        assert one.admin.cached_group_overrides("a/b") == {}
        await one.admin.set_group_overrides("a/b", {"consumer.session.timeout.ms": "50000"})
        await one.admin.set_group_overrides("c", {"consumer.session.timeout.ms": "60000"})
        await _rounds()
        assert await one.session.children(ConfigChangesZNode.PATH) == []
        assert two.admin.cached_group_overrides("a/b") == {"consumer.session.timeout.ms": "50000"}
        assert two.admin.cached_group_overrides("d") == {}
        assert two.admin.groups() == ["a/b", "c"]
        await two.admin.set_group_overrides("c", {})
        await _rounds()
        assert one.admin.groups() == ["a/b"]
        late = Side(one.session._store, clock, 3)
        await late.admin.load([])
        assert late.admin.cached_group_overrides("a/b") == {"consumer.session.timeout.ms": "50000"}
        await two.admin.stop()

    asyncio.run(main())


def test_a_group_whose_configuration_can_not_be_read_has_none(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock, one, _ = await _two()
        await ensure_path(one.session, "/config/groups/a%2Fb", b"{")
        late = Side(one.session._store, clock, 3)
        await late.admin.load([])
        assert late.admin.groups() == []

    asyncio.run(main())
    assert "The configuration of group a/b can't be read" in caplog.text


def test_everything_is_read_at_the_start() -> None:
    async def main() -> None:
        clock, one, _ = await _two()
        await one.admin.set_topic_overrides("t", {"retention.ms": "1"})
        await one.admin.set_broker_overrides(3, {"log.cleaner.threads": "5"})
        late = Side(one.session._store, clock, 3)
        assert await late.admin.load(["t", "u"]) == {"t": {"retention.ms": "1"}, "u": {}}
        assert late.config["log.cleaner.threads"] == 5
        assert late.admin.unread_topics(["t", "u", "v", "v"]) == ["v"]
        late.admin.forget_topic("t")
        late.admin.forget_topic("never")
        assert late.admin.cached_topic_overrides("t") == {}
        await late.admin.load_topics(late.admin.unread_topics(["t", "u"]))
        assert late.admin.unread_topics(["t", "u"]) == []
        assert late.admin.cached_topic_overrides("t") == {"retention.ms": "1"}

    asyncio.run(main())


def test_old_notes_are_deleted() -> None:
    async def main() -> None:
        clock, one, two = await _two()
        await one.admin.set_topic_overrides("t", {})
        await _rounds()
        clock.advance(NOTE_LIFETIME_MS + 1)
        await one.admin.set_topic_overrides("t", {"retention.ms": "9"})
        await _rounds()
        assert await two.session.children(ConfigChangesZNode.PATH) == ["config_change_0000000001"]
        assert two.heard.topics == [("t", {}), ("t", {"retention.ms": "9"})]

    asyncio.run(main())


def test_a_change_reads_few_of_many_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes are kept for a quarter of an hour: with thousands of them each change took milliseconds."""

    async def main() -> None:
        clock, one, two = await _two()
        for _ in range(5 * NOTES_AT_ONCE):
            await one.admin.set_topic_overrides("t", {})
        await _rounds()
        read: list[str] = []
        get_many = two.session.get_many

        async def counted(paths: Sequence[str]) -> list[Node | None]:
            read.extend(paths)
            return await get_many(paths)

        monkeypatch.setattr(two.session, "get_many", counted)
        await one.admin.set_topic_overrides("u", {"retention.ms": "1"})
        await _rounds()
        assert two.heard.topics[-1] == ("u", {"retention.ms": "1"})
        assert len(read) <= 1 + NOTES_AT_ONCE
        clock.advance(NOTE_LIFETIME_MS + 1)
        await one.admin.set_topic_overrides("u", {})
        for _ in range(20):
            await _rounds()
        assert len(await two.session.children(ConfigChangesZNode.PATH)) == 1

    asyncio.run(main())


def test_an_invalid_change_notification_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        _, one, two = await _two()
        await one.session.create(ConfigChangesZNode.child_path(), b"nonsense", sequential=True)
        note = b'{"version":2,"entity_path":"users/bob"}'
        await one.session.create(ConfigChangesZNode.child_path(), note, sequential=True)
        await one.admin.set_broker_overrides(None, {"log.segment.bytes": "-5"})
        await one.admin.set_topic_overrides("t", {})
        await _rounds()
        assert two.heard.topics == [("t", {})]
        await two.session.close()
        await one.admin.set_topic_overrides("t", {})
        await _rounds()
        assert len(two.heard.topics) == 1

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "config_change_0000000000" in caplog.text


def test_the_end_of_the_session_ends_the_watching() -> None:
    async def main() -> None:
        _, one, two = await _two()
        two.admin.session_renewed()
        await two.session.close()
        await _rounds()
        await two.admin.stop()
        await one.admin.set_topic_overrides("t", {})
        await _rounds()
        assert two.heard.topics == []

    asyncio.run(main())


def test_a_configuration_that_can_not_be_read_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        _, one, _ = await _two()
        await one.admin.set_topic_overrides("good", {"retention.ms": "1"})
        await ensure_path(one.session, "/config/topics/bad", b'{"config":[1]}')
        await one.admin.load_topics(["good", "bad"])
        assert one.admin.unread_topics(["good", "bad"]) == ["bad"]
        assert "Topic bad can't be served: the node /config/topics/bad in the cluster's metadata holds" in caplog.text
        with pytest.raises(ForeignDataError, match="/config/topics/bad"):
            await one.admin.load(["good", "bad"])
        with pytest.raises(ForeignDataError, match="/config/topics/bad"):
            await one.admin.topic_overrides("bad")
        assert (await one.session.get("/config/topics/bad")).data == b'{"config":[1]}'

    asyncio.run(main())


def test_notes_of_others_are_passed_over() -> None:
    async def main() -> None:
        _, one, two = await _two()
        await one.session.create("/config/changes/something_else", b"")
        await one.admin.set_topic_overrides("t", {"retention.ms": "1"})
        await _rounds()
        assert two.admin.cached_topic_overrides("t") == {"retention.ms": "1"}

    asyncio.run(main())


@pytest.mark.parametrize("method", ["children", "get"])
def test_a_read_that_the_store_refuses_is_repeated(method: str, caplog: pytest.LogCaptureFixture) -> None:
    """The watch was removed, or the note was read but not the node that it names: no other code would look again."""

    async def main() -> None:
        clock, one, two = await _two()
        good, refused = getattr(two.session, method), []

        async def refuse_once(path: str, *arguments: object) -> object:
            if not refused and path in ("/config/changes", "/config/topics/t2"):
                refused.append(path)
                raise StoreRefusedError(path, "throttled")
            return await good(path, *arguments)

        setattr(two.session, method, refuse_once)
        for value in "12":
            await one.admin.set_topic_overrides(f"t{value}", {"retention.ms": value})
        await _rounds()
        changes = [("t1", {"retention.ms": "1"}), ("t2", {"retention.ms": "2"})]
        assert (refused != [], two.heard.topics) == (True, changes[:1] if method == "get" else [])
        clock.advance(RETRY_MS)
        await _rounds()
        assert two.heard.topics == changes
        await two.admin.stop()
        clock.advance(10 * RETRY_MS)

    asyncio.run(main())
    assert caplog.text.count("Configuration changes could not be read, trying again") == 1


def test_one_configuration_that_is_refused_for_good_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock, one, two = await _two()
        get = two.session.get

        async def refuse(path: str, *arguments: Any) -> Node:
            if path == "/config/topics/secret":
                raise StoreRefusedError(path, "no permission")
            return await get(path, *arguments)

        two.session.get = refuse  # type: ignore[method-assign]
        for number in range(3):
            for topic in ("secret", "open"):
                await one.admin.set_topic_overrides(topic, {"retention.ms": str(number)})
            await _rounds()
            clock.advance(RETRY_MS)
            await _rounds()
            assert two.heard.topics[-1] == ("open", {"retention.ms": str(number)})
        await two.admin.stop()

    asyncio.run(main())
    assert caplog.text.count("Configuration changes could not be read, trying again") == 1


def test_a_listener_that_fails_stops_neither_later_changes_nor_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock, one, two = await _two()
        told = []

        def fail_at_first(topic: str, _: Mapping[str, str]) -> None:
            told.append(topic)
            if len(told) == 1:
                raise ZeroDivisionError("a bug")

        two.heard.topic_config_changed = fail_at_first  # type: ignore[method-assign]
        await one.admin.set_topic_overrides("t1", {})
        await _rounds()
        await one.admin.set_topic_overrides("t2", {})
        clock.advance(RETRY_MS)
        await _rounds()
        assert told == ["t1", "t2"]

    asyncio.run(main())
    assert "ZeroDivisionError" in caplog.text
