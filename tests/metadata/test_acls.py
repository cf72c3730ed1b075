import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from harness.cases.zookeeper_connections import new_store
from kafkapy.clock import SystemClock
from kafkapy.metadata.acls import AclChangesZNode, AclNotStoredError, AclStore, AclZNode
from kafkapy.metadata.change_notes import MOST_TRIES, PAUSE_MS
from kafkapy.metadata.embedded import EmbeddedSession, EmbeddedStore
from kafkapy.metadata.store import NoNodeError, SessionEvent
from kafkapy.metadata.znodes import ForeignDataError
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.security.acls import AclEntry, ResourcePattern
from kafkapy.security.authorizer import AclAuthorizer
from kafkapy.testing.clock import ManualClock
from tests.metadata.zookeeper_server import ZooKeeperServer
from tests.server.harness import run, until

TOPIC = AclResourceType.TOPIC
ORDERS = ResourcePattern(TOPIC, "orders", AclPatternType.LITERAL)
PREFIX = ResourcePattern(TOPIC, "or", AclPatternType.PREFIXED)
READ = AclEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
DENY = AclEntry("User:bob", "10.0.0.1", AclOperation.CLUSTER_ACTION, AclPermissionType.DENY)

ORDERS_PATH = "/kafka-acl/Topic/orders"


class Side:
    """One broker's ACLs."""

    def __init__(self, store: EmbeddedStore, clock: ManualClock) -> None:
        self.session: EmbeddedSession = store.session()
        self.authorizer = AclAuthorizer()
        self.acls = AclStore(clock, self.session, self.authorizer)

    def may_read(self, name: str = "orders") -> bool:
        return self.authorizer.allows("User:alice", "::1", AclOperation.READ, TOPIC, name)

    async def add(self, pattern: ResourcePattern, *entries: AclEntry) -> None:
        async def added(before: tuple[AclEntry, ...]) -> tuple[AclEntry, ...]:
            return (*before, *entries)

        await self.acls.change(pattern, added)

    async def remove(self, pattern: ResourcePattern, *entries: AclEntry) -> None:
        async def kept(before: tuple[AclEntry, ...]) -> list[AclEntry]:
            return [each for each in before if each not in entries]

        await self.acls.change(pattern, kept)


async def _rounds() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


def _with_two(scenario: Callable[[ManualClock, Side, Side], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = ManualClock()
        store = EmbeddedStore(None, clock)
        sides = Side(store, clock), Side(store, clock)
        for side in sides:
            await side.acls.start()
        await scenario(clock, *sides)
        for side in sides:
            await side.acls.stop()

    asyncio.run(main())


def test_entries_are_written_as_apache_kafka_writes_them() -> None:
    assert AclZNode.path(ORDERS) == ORDERS_PATH
    assert AclZNode.path(PREFIX) == "/kafka-acl-extended/prefixed/Topic/or"
    assert AclZNode.encode([READ, DENY]) == (
        b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"},'
        b'{"principal":"User:bob","permissionType":"Deny","operation":"ClusterAction","host":"10.0.0.1"}]}'
    )
    assert AclZNode.decode(AclZNode.encode([READ, DENY, READ])) == (READ, DENY)
    assert AclZNode.decode(None) == AclZNode.decode(b"") == ()


@pytest.mark.parametrize(
    "data",
    [
        {"version": 2, "acls": []},
        {"acls": []},
        {"version": 1},
        {"version": 1, "acls": [{"principal": "User:a", "permissionType": "Allow", "operation": "Fly", "host": "*"}]},
        {"version": 1, "acls": [{"principal": "User:a", "permissionType": "Any", "operation": "Read", "host": "*"}]},
        {"version": 1, "acls": [{"permissionType": "Deny", "operation": "Read", "host": "*"}]},
    ],
)
def test_foreign_entries_are_no_entries(data: object) -> None:
    with pytest.raises(ValueError, match=r"version|none of|no 'acls'|no 'principal'"):
        AclZNode.decode(json.dumps(data).encode())


def test_notes_are_written_as_apache_kafka_writes_them() -> None:
    named = ORDERS._replace(resource_type=AclResourceType.TRANSACTIONAL_ID, name="a:b")
    assert AclChangesZNode.child_path(ORDERS) == "/kafka-acl-changes/acl_changes_"
    assert AclChangesZNode.encode(named) == b"TRANSACTIONAL_ID:a:b"
    for text in (b"TRANSACTIONAL_ID:a:b", b"TransactionalId:a:b"):
        assert AclChangesZNode.decode_literal(text) == named
    assert AclChangesZNode.child_path(PREFIX) == "/kafka-acl-extended-changes/acl_changes_"
    assert AclChangesZNode.encode(PREFIX) == (
        b'{"version":1,"resourceType":"TOPIC","name":"or","patternType":"PREFIXED"}'
    )
    assert AclChangesZNode.decode_extended(AclChangesZNode.encode(PREFIX)) == PREFIX
    for decode, data in ((AclChangesZNode.decode_literal, b"orders"), (AclChangesZNode.decode_extended, b"{}")):
        with pytest.raises(ValueError, match=r"none of|no 'patternType'"):
            decode(data)


def test_a_change_holds_here_at_once_and_reaches_every_broker() -> None:
    async def scenario(_: ManualClock, one: Side, two: Side) -> None:
        await one.add(ORDERS, READ)
        assert one.may_read()
        await _rounds()
        assert two.may_read()
        await two.add(PREFIX, READ, DENY)
        await two.remove(ORDERS, READ)
        await _rounds()
        for side in (one, two):
            assert side.may_read()
            assert side.authorizer.entries(PREFIX) == (READ, DENY)
            assert side.authorizer.patterns() == [PREFIX]
        with pytest.raises(NoNodeError):
            await one.session.get(ORDERS_PATH)
        assert len(await one.session.children("/kafka-acl-changes")) == 2
        assert len(await one.session.children("/kafka-acl-extended-changes")) == 1

    _with_two(scenario)


def test_what_changes_nothing_writes_nothing() -> None:
    async def scenario(_: ManualClock, one: Side, __: Side) -> None:
        await one.add(ORDERS, READ)
        await one.add(ORDERS, READ)
        await one.remove(PREFIX, READ)
        node = await one.session.get(ORDERS_PATH)
        assert node.stat.version == 0
        assert len(await one.session.children("/kafka-acl-changes")) == 1

    _with_two(scenario)


def test_a_start_reads_all_entries() -> None:
    async def scenario(clock: ManualClock, one: Side, _: Side) -> None:
        await one.add(ORDERS, READ)
        await one.add(PREFIX, DENY)
        clock.advance(3_600_000)
        other = Side(one.session._store, clock)
        await other.acls.start()
        assert set(other.authorizer.patterns()) == {ORDERS, PREFIX}
        await other.acls.stop()

    _with_two(scenario)


def test_a_start_fails_on_entries_that_can_not_be_read() -> None:
    async def scenario(clock: ManualClock, one: Side, _: Side) -> None:
        await one.session.create(ORDERS_PATH, b'{"version":7}')
        with pytest.raises(ForeignDataError, match=ORDERS_PATH):
            await Side(one.session._store, clock).acls.start()

    _with_two(scenario)


def test_entries_that_can_not_be_read_later_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_: ManualClock, one: Side, __: Side) -> None:
        await one.add(ORDERS, READ)
        await one.session.set(ORDERS_PATH, b"?")
        for note in (b"Topic:orders", b"Topic:a/b", b"nonsense"):
            await one.session.create("/kafka-acl-changes/acl_changes_", note, sequential=True)
        await _rounds()
        assert one.may_read()
        with pytest.raises(ForeignDataError):
            await one.add(ORDERS, DENY)

    _with_two(scenario)
    assert "acl_changes_0000000001 announces can't be applied" in caplog.text


def test_two_brokers_change_the_same_pattern() -> None:
    async def scenario(clock: ManualClock, one: Side, two: Side) -> None:
        get_many = one.session.get_many
        tries = []

        async def slow(paths: list[str], *arguments: object) -> object:
            found = await get_many(paths, *arguments)  # type: ignore[arg-type]
            if paths == [ORDERS_PATH] and len(tries) < 2:
                tries.append(paths)
                await two.add(ORDERS, DENY._replace(principal=f"User:{len(tries)}"))
            return found

        one.session.get_many = slow  # type: ignore[method-assign, assignment]
        adding = asyncio.create_task(one.add(ORDERS, READ))
        for _ in range(2):
            await _rounds()
            clock.advance(PAUSE_MS)
        await adding
        await _rounds()
        assert one.authorizer.entries(ORDERS) == two.authorizer.entries(ORDERS)
        assert {each.principal for each in one.authorizer.entries(ORDERS)} == {"User:1", "User:2", "User:alice"}

    _with_two(scenario)


def test_a_pattern_that_others_change_all_the_time() -> None:
    async def scenario(clock: ManualClock, one: Side, two: Side) -> None:
        get_many, writes = one.session.get_many, []

        async def overtaken(paths: list[str], *arguments: object) -> object:
            found = await get_many(paths, *arguments)  # type: ignore[arg-type]
            writes.append(paths)
            await two.add(ORDERS, DENY._replace(principal=f"User:{len(writes)}"))
            return found

        one.session.get_many = overtaken  # type: ignore[method-assign, assignment]
        adding = asyncio.create_task(one.add(ORDERS, READ))
        while not adding.done():
            await _rounds()
            clock.advance(PAUSE_MS)
        with pytest.raises(AclNotStoredError, match=f"{MOST_TRIES} times"):
            await adding

    _with_two(scenario)


@pytest.mark.parametrize("name", ["a/b", "..", "\0", "a\n"])
def test_names_that_no_path_can_have(name: str) -> None:
    async def scenario(_: ManualClock, one: Side, __: Side) -> None:
        with pytest.raises(AclNotStoredError, match="can't have"):
            await one.add(ORDERS._replace(name=name), READ)

    _with_two(scenario)


def test_another_session_reads_what_the_broker_has_missed() -> None:
    async def scenario(_: ManualClock, one: Side, two: Side) -> None:
        await one.add(PREFIX, READ)
        await _rounds()
        await two.session.expire()
        await one.remove(PREFIX, READ)
        await one.add(ORDERS, READ)
        for name in await one.session.children("/kafka-acl-changes"):
            await one.session.delete(f"/kafka-acl-changes/{name}")
        two.session.renew()
        two.acls.session_renewed()
        two.acls.session_renewed()
        await _rounds()
        assert two.authorizer.patterns() == [ORDERS]
        await one.add(PREFIX, READ)
        await _rounds()
        assert set(two.authorizer.patterns()) == {ORDERS, PREFIX}

    _with_two(scenario)


def test_a_reload_that_fails_keeps_the_entries(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_: ManualClock, one: Side, __: Side) -> None:
        await one.add(ORDERS, READ)
        await one.session.set(ORDERS_PATH, b"?")
        one.acls.session_renewed()
        await _rounds()
        assert one.may_read()
        await one.session.close()
        one.acls.session_renewed()
        await _rounds()
        assert one.may_read()

    _with_two(scenario)
    assert caplog.text.count("ACLs could not be read") == 1


def test_ten_thousand_entries_of_one_resource() -> None:
    async def scenario(_: ManualClock, one: Side, two: Side) -> None:
        entries = [READ._replace(principal=f"User:{number}") for number in range(10_000)]
        await one.add(ORDERS, *entries, READ)
        await _rounds()
        assert two.may_read()
        assert len(two.authorizer.entries(ORDERS)) == 10_001

    _with_two(scenario)


def test_a_zookeeper_whose_session_expires() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            stores = [new_store(server.port, "") for _ in range(2)]
            sides = []
            for store in stores:
                await store.open()
                acls = AclStore(SystemClock(), store, AclAuthorizer())
                await acls.start()
                sides.append(acls)
            one, two = sides

            def renewed(event: SessionEvent) -> None:
                if event is SessionEvent.RENEWED:
                    two.session_renewed()

            stores[1].add_session_listener(renewed)
            await one.change(ORDERS, _only(READ))
            await until(lambda: two.authorizer.entries(ORDERS) == (READ,))
            server.end_session(stores[1].session_id)
            await one.change(ORDERS, _only(DENY))
            await until(lambda: two.authorizer.entries(ORDERS) == (DENY,))
            await two.change(ORDERS, _only())
            await until(lambda: one.authorizer.patterns() == [])
            for acls, store in zip(sides, stores, strict=True):
                await acls.stop()
                await store.close()

    run(main())


def _only(*entries: AclEntry) -> Callable[[object], Awaitable[tuple[AclEntry, ...]]]:
    async def update(_: object) -> tuple[AclEntry, ...]:
        return entries

    return update
