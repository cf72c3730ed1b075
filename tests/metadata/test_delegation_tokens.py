import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cases.zookeeper_connections import new_store
from kafkapy.clock import SystemClock
from kafkapy.errors import BrokerError
from kafkapy.metadata.change_notes import MOST_TRIES, PAUSE_MS
from kafkapy.metadata.delegation_tokens import (
    TokenExpiredError,
    TokenLifetimes,
    TokenNotFoundError,
    TokenNotStoredError,
    TokenOwnerMismatchError,
    TokenStore,
    TokenTooLargeError,
    TokenZNode,
    new_token_id,
)
from kafkapy.metadata.embedded import EmbeddedSession, EmbeddedStore
from kafkapy.metadata.store import NoNodeError, SessionEvent
from kafkapy.metadata.znodes import tree_name
from kafkapy.security.delegation_tokens import DelegationToken, TokenCache
from kafkapy.testing.clock import ManualClock
from tests.metadata.zookeeper_server import ZooKeeperServer
from tests.server.harness import run, until

ANN, BOB, EVE = "User:ann", "User:bob", "User:eve"
DAY_MS = 86_400_000
LIFETIMES = TokenLifetimes(7 * DAY_MS, DAY_MS)
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
NODE = (
    b'{"issueTimestamp":1795249598560,"renewers":["User%3Aren1"],"tokenId":"zzwQNYypTVODHFCoA2hAhQ",'
    b'"owner":"User%3Au1","expiryTimestamp":1795250198560,"maxTimestamp":1795250198560,"version":1}'
)
"""As Apache Kafka 2.7.2 has written it."""
CHANGES = "/delegation_token/token_changes"


class Side:
    """One broker's tokens."""

    def __init__(self, store: EmbeddedStore, clock: ManualClock, lifetimes: TokenLifetimes = LIFETIMES) -> None:
        self.session: EmbeddedSession = store.session()
        self.cache = TokenCache("master key", clock.now_ms)
        self.tokens = TokenStore(clock, self.session, self.cache, lifetimes)

    async def create(self, owner: str = ANN, *renewers: str, lifetime_ms: int = -1) -> DelegationToken:
        return await self.tokens.create(owner, owner, renewers, lifetime_ms)

    def hmac(self, token: DelegationToken) -> bytes:
        return self.cache.hmac_of(token.token_id)


async def _rounds() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


def _with_two(
    scenario: Callable[[ManualClock, Side, Side], Awaitable[None]], lifetimes: TokenLifetimes = LIFETIMES
) -> None:
    async def main() -> None:
        clock = ManualClock()
        store = EmbeddedStore(None, clock)
        sides = Side(store, clock, lifetimes), Side(store, clock, lifetimes)
        for side in sides:
            await side.tokens.start()
        await scenario(clock, *sides)
        for side in sides:
            await side.tokens.stop()

    asyncio.run(main())


def test_a_node_is_read_and_written_as_apache_kafka_does() -> None:
    token = DelegationToken(
        "zzwQNYypTVODHFCoA2hAhQ", "User:u1", "User:u1", ("User:ren1",), 1795249598560, 1795250198560, 1795250198560
    )
    assert TokenZNode.decode(NODE) == token
    assert TokenZNode.encode(token, ["User%3Aren1"]) == NODE
    assert TokenZNode.with_expiry(NODE, 7) == NODE.replace(b'"expiryTimestamp":1795250198560', b'"expiryTimestamp":7')
    assert TokenZNode.path(token.token_id) == "/delegation_token/tokens/zzwQNYypTVODHFCoA2hAhQ"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_all_names_can_be_written(name: str) -> None:
    written = TokenZNode.encode(
        DelegationToken("t", f"User:{name}", f"User:{name}", (), 1, 2, 3), [tree_name(f"User:{name}")]
    )
    assert TokenZNode.decode(
        written.replace(b'"owner":', b'"other":').replace(b"}", b',"owner":"a%3Ab"}')
    ).renewers == (f"User:{name}",)
    assert TokenZNode.decode(
        TokenZNode.encode(DelegationToken("t", f"User:{name}", f"User:{name}", (), 1, 2, 3), [])
    ).owner == (f"User:{name}")


def test_java_writes_a_space_as_a_plus() -> None:
    assert TokenZNode.decode(NODE.replace(b"User%3Aren1", b"User%3Aa+b%2Bc")).renewers == ("User:a b+c",)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_token_that_another_one_has_created(name: str) -> None:
    token = DelegationToken("t", ANN, f"User:{name}", (), 1, 2, 3)
    written = TokenZNode.encode(token, [])
    assert TokenZNode.decode(written) == token
    assert json.loads(written)["version"] == 3


def test_keys_of_later_releases_stay() -> None:
    node = NODE.replace(b'"version":1', b'"version":3,"tokenRequester":"User%3Ax"')
    assert TokenZNode.decode(node) == TokenZNode.decode(NODE)._replace(requester="User:x")
    assert json.loads(TokenZNode.with_expiry(node, 7)) == json.loads(node) | {"expiryTimestamp": 7}


@pytest.mark.parametrize(
    "node",
    [
        None,
        b"",
        b"[]",
        b"{}",
        NODE.replace(b'"version":1', b'"version":4'),
        NODE.replace(b'"version":1', b'"version":0'),
        NODE.replace(b"User%3Aren1", b"ren1"),
        NODE.replace(b"User%3Aren1", b"User%3A%ff"),
        NODE.replace(b"owner", b"Owner"),
        NODE.replace(b'"expiryTimestamp":1795250198560', b'"expiryTimestamp":"soon"'),
    ],
)
def test_a_node_that_can_not_be_read(node: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"."):
        TokenZNode.decode(node)


@pytest.mark.parametrize("token_id", ["", "a/b", "..", "\0"])
def test_ids_that_no_path_can_have(token_id: str) -> None:
    with pytest.raises(ValueError, match="no id of a delegation token"):
        TokenZNode.path(token_id)


def test_an_id_is_a_random_uuid_in_base64() -> None:
    ids = {new_token_id() for _ in range(100)}
    assert len(ids) == 100
    assert {len(each) for each in ids} == {22}


def test_a_token_is_known_to_both_brokers_with_a_note_for_each_change() -> None:
    async def scenario(clock: ManualClock, one: Side, two: Side) -> None:
        token = await one.create(ANN, BOB, lifetime_ms=DAY_MS // 2)
        now_ms = clock.now_ms()
        half = now_ms + DAY_MS // 2
        assert token == DelegationToken(token.token_id, ANN, ANN, (BOB,), now_ms, half, half)
        await _rounds()
        assert two.cache.tokens() == one.cache.tokens() == [token]
        assert TokenZNode.decode((await one.session.get(TokenZNode.path(token.token_id))).data) == token
        (note,) = await one.session.children(CHANGES)
        assert note == "token_change_0000000000"
        assert (await one.session.get(f"{CHANGES}/{note}")).data == token.token_id.encode()
        assert await two.tokens.renew(BOB, two.hmac(token), 5_000) == now_ms + 5_000
        await _rounds()
        assert [each.expiry_ms for each in one.cache.tokens()] == [now_ms + 5_000]
        assert await one.tokens.expire(BOB, one.hmac(token), -1) == now_ms
        await _rounds()
        assert two.cache.tokens() == []
        with pytest.raises(NoNodeError):
            await one.session.get(TokenZNode.path(token.token_id))
        assert len(await one.session.children(CHANGES)) == 3

    _with_two(scenario)


@pytest.mark.parametrize(
    ("lifetime_ms", "expiry_ms", "max_ms"),
    [
        (-1, DAY_MS, 7 * DAY_MS),
        (0, DAY_MS, 7 * DAY_MS),
        (SMALLEST, DAY_MS, 7 * DAY_MS),
        (1, 1, 1),
        (2 * DAY_MS, DAY_MS, 2 * DAY_MS),
        (LARGEST, DAY_MS, 7 * DAY_MS),
    ],
)
def test_the_lifetime_is_at_most_the_broker_s(lifetime_ms: int, expiry_ms: int, max_ms: int) -> None:
    async def scenario(clock: ManualClock, one: Side, _: Side) -> None:
        token = await one.create(lifetime_ms=lifetime_ms)
        now_ms = clock.now_ms()
        assert (token.expiry_ms - now_ms, token.max_ms - now_ms) == (expiry_ms, max_ms)

    _with_two(scenario)


def test_no_time_exceeds_64_bits() -> None:
    async def scenario(_: ManualClock, one: Side, __: Side) -> None:
        token = await one.create()
        assert (token.expiry_ms, token.max_ms) == (LARGEST, LARGEST)
        assert await one.tokens.renew(ANN, one.hmac(token), LARGEST) == LARGEST
        assert await one.tokens.expire(ANN, one.hmac(token), LARGEST) == LARGEST

    _with_two(scenario, TokenLifetimes(LARGEST, LARGEST))


@pytest.mark.parametrize(
    ("period_ms", "expected_ms"), [(-1, DAY_MS), (SMALLEST, DAY_MS), (0, 0), (1, 1), (LARGEST, 7 * DAY_MS)]
)
def test_a_renewal(period_ms: int, expected_ms: int) -> None:
    async def scenario(clock: ManualClock, one: Side, _: Side) -> None:
        token = await one.create()
        assert await one.tokens.renew(ANN, one.hmac(token), period_ms) == clock.now_ms() + expected_ms

    _with_two(scenario)


@pytest.mark.parametrize(("period_ms", "expected_ms"), [(-1, 0), (SMALLEST, 0), (0, 0), (1, 1), (LARGEST, 7 * DAY_MS)])
def test_an_expiry(period_ms: int, expected_ms: int) -> None:
    async def scenario(clock: ManualClock, one: Side, _: Side) -> None:
        token = await one.create()
        assert await one.tokens.expire(ANN, one.hmac(token), period_ms) == clock.now_ms() + expected_ms
        assert len(one.cache.tokens()) == (0 if period_ms < 0 else 1)

    _with_two(scenario)


def test_refusals_in_the_order_of_apache_kafka() -> None:
    async def scenario(clock: ManualClock, one: Side, _: Side) -> None:
        token = await one.create(ANN, BOB, lifetime_ms=1_000)
        for change in (one.tokens.renew, one.tokens.expire):
            with pytest.raises(TokenNotFoundError):
                await change(ANN, b"x" * 64, 1)
            with pytest.raises(TokenOwnerMismatchError):
                await change(EVE, one.hmac(token), 1)
        clock.advance(1_001)
        for change in (one.tokens.renew, one.tokens.expire):
            with pytest.raises(TokenOwnerMismatchError):
                await change(EVE, one.hmac(token), -1)
            with pytest.raises(TokenExpiredError):
                await change(BOB, one.hmac(token), -1)

    _with_two(scenario)


def test_ten_thousand_renewers_and_more_than_a_node_can_have() -> None:
    async def scenario(_: ManualClock, one: Side, two: Side) -> None:
        renewers = [f"User:renewer-{number}" for number in range(10_000)]
        token = await one.create(ANN, *renewers)
        await until(lambda: two.cache.tokens() == [token])
        assert await two.tokens.renew(renewers[-1], two.hmac(token), 1)
        for many in ([*renewers, *renewers], ["User:" + "x" * 250_000]):
            with pytest.raises(TokenTooLargeError):
                await one.create(ANN, *many)
        with pytest.raises(TokenTooLargeError):
            await one.create("User:" + "x" * 250_000)
        assert len(one.cache.tokens()) == 1

    _with_two(scenario)


def test_expired_tokens_are_removed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(clock: ManualClock, one: Side, two: Side) -> None:
        short = [await one.create(lifetime_ms=1_000) for _ in range(250)]
        renewed = await one.create()
        await one.tokens.renew(ANN, one.hmac(renewed), 1_000)
        lasting = await one.create()
        await _rounds()
        clock.advance(1_001)
        await two.session.set(
            TokenZNode.path(renewed.token_id),
            TokenZNode.encode(renewed._replace(expiry_ms=renewed.max_ms), []),
        )  # another broker has renewed it, and its note has not been read
        one.tokens.remove_expired()
        one.tokens.remove_expired()
        for _ in range(20):
            await _rounds()
        left = {renewed.token_id, lasting.token_id}
        assert set(await one.session.children(TokenZNode.PARENT)) == left
        assert {each.token_id for each in two.cache.tokens()} == left
        with pytest.raises(TokenNotFoundError):
            await two.tokens.renew(ANN, two.hmac(short[0]), 1)

    _with_two(scenario)
    assert caplog.text.count("has expired") == 250


def test_a_removal_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(clock: ManualClock, one: Side, _: Side) -> None:
        token = await one.create(lifetime_ms=1)
        clock.advance(10)

        async def refused(*_: object) -> None:
            raise NoNodeError(token.token_id)

        one.session.get_many = refused  # type: ignore[method-assign, assignment]
        one.tokens.remove_expired()
        await _rounds()
        await one.session.close()
        one.tokens.session_renewed()
        await _rounds()

    _with_two(scenario)
    assert caplog.text.count("Delegation tokens could not be read or removed") == 1


def test_a_start_reads_all_tokens_but_those_that_can_not_be_read(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(clock: ManualClock, one: Side, _: Side) -> None:
        tokens = [await one.create() for _ in range(3)]
        bad = await one.create()
        await one.session.set(TokenZNode.path(bad.token_id), b'{"version":9}')
        await one.session.create(TokenZNode.path("other"), NODE)
        clock.advance(3_600_000)
        other = Side(one.session._store, clock)
        await other.tokens.start()
        assert {each.token_id for each in other.cache.tokens()} == {each.token_id for each in tokens}
        with pytest.raises(TokenNotFoundError):
            await one.tokens.renew(ANN, one.hmac(bad), 1)
        await other.tokens.stop()

    _with_two(scenario)
    assert "A delegation token can't be used" in caplog.text


def test_a_note_that_names_no_token(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_: ManualClock, one: Side, two: Side) -> None:
        for note in (b"a/b", b"\xff", None, b"unknown"):
            await one.session.create(f"{CHANGES}/token_change_", note, sequential=True)
        token = await one.create()
        await _rounds()
        assert two.cache.tokens() == [token]

    _with_two(scenario)
    assert caplog.text.count("can't be applied") == 6


def test_two_brokers_change_the_same_token() -> None:
    async def scenario(clock: ManualClock, one: Side, two: Side) -> None:
        token = await one.create()
        await _rounds()
        now_ms, get_many = clock.now_ms(), one.session.get_many

        async def slow(paths: list[str], *arguments: object) -> object:
            found = await get_many(paths, *arguments)  # type: ignore[arg-type]
            if paths == [TokenZNode.path(token.token_id)]:
                one.session.get_many = get_many  # type: ignore[method-assign]
                await two.tokens.renew(ANN, two.hmac(token), 7_000)
            return found

        one.session.get_many = slow  # type: ignore[method-assign, assignment]
        renewing = asyncio.create_task(one.tokens.renew(ANN, one.hmac(token), 5_000))
        await _rounds()
        clock.advance(PAUSE_MS)
        assert await renewing == now_ms + PAUSE_MS + 5_000
        await _rounds()
        assert one.cache.tokens() == two.cache.tokens()

        async def removed(paths: list[str], *arguments: object) -> object:
            found = await get_many(paths, *arguments)  # type: ignore[arg-type]
            one.session.get_many = get_many  # type: ignore[method-assign]
            await two.tokens.expire(ANN, two.hmac(token), -1)
            return found

        one.session.get_many = removed  # type: ignore[method-assign, assignment]
        expiring = asyncio.create_task(one.tokens.expire(ANN, one.hmac(token), -1))
        await _rounds()
        clock.advance(PAUSE_MS)
        with pytest.raises(TokenNotFoundError):
            await expiring
        assert one.cache.tokens() == []

    _with_two(scenario)


def test_a_token_that_others_change_all_the_time() -> None:
    async def scenario(clock: ManualClock, one: Side, two: Side) -> None:
        token = await one.create()
        await _rounds()
        get_many = one.session.get_many

        async def overtaken(paths: list[str], *arguments: object) -> object:
            found = await get_many(paths, *arguments)  # type: ignore[arg-type]
            await two.tokens.renew(ANN, two.hmac(token), 1_000_000)
            return found

        one.session.get_many = overtaken  # type: ignore[method-assign, assignment]
        renewing = asyncio.create_task(one.tokens.renew(ANN, one.hmac(token), 5_000))
        while not renewing.done():
            await _rounds()
            clock.advance(PAUSE_MS)
        with pytest.raises(TokenNotStoredError, match=f"{MOST_TRIES} times"):
            await renewing
        one.session.get_many = get_many  # type: ignore[method-assign]

    _with_two(scenario)


def test_another_session_reads_what_the_broker_has_missed() -> None:
    async def scenario(_: ManualClock, one: Side, two: Side) -> None:
        gone = await one.create()
        await _rounds()
        await two.session.expire()
        await one.tokens.expire(ANN, one.hmac(gone), -1)
        token = await one.create()
        for name in await one.session.children(CHANGES):
            await one.session.delete(f"{CHANGES}/{name}")
        two.session.renew()
        two.tokens.session_renewed()
        two.tokens.session_renewed()
        await _rounds()
        assert two.cache.tokens() == [token]
        other = await one.create()
        await _rounds()
        assert set(two.cache.tokens()) == {token, other}

    _with_two(scenario)


def test_a_zookeeper_whose_session_expires() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            stores = [new_store(server.port, "") for _ in range(2)]
            sides = []
            for store in stores:
                await store.open()
                cache = TokenCache("master key", SystemClock().now_ms)
                sides.append(TokenStore(SystemClock(), store, cache, LIFETIMES))
                await sides[-1].start()
            one, two = sides

            def renewed(event: SessionEvent) -> None:
                if event is SessionEvent.RENEWED:
                    two.session_renewed()

            stores[1].add_session_listener(renewed)
            token = await one.create(ANN, ANN, [BOB], -1)
            await until(lambda: two.cache.tokens() == [token])
            server.end_session(stores[1].session_id)
            await one.renew(ANN, one.cache.hmac_of(token.token_id), 1_000_000)
            await until(lambda: two.cache.tokens() == one.cache.tokens())
            await two.expire(BOB, two.cache.hmac_of(token.token_id), -1)
            await until(lambda: one.cache.tokens() == [])
            for tokens, store in zip(sides, stores, strict=True):
                await tokens.stop()
                await store.close()

    run(main())


PRINCIPALS = (ANN, BOB, EVE)
PERIODS = st.sampled_from([SMALLEST, -1, 0, 1, 500, 1_000, 3_000, LARGEST])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from(PRINCIPALS), st.sets(st.sampled_from(PRINCIPALS)), PERIODS),
        st.tuples(st.just("renew"), st.sampled_from(PRINCIPALS), st.integers(0, 3), PERIODS),
        st.tuples(st.just("expire"), st.sampled_from(PRINCIPALS), st.integers(0, 3), PERIODS),
        st.tuples(st.just("wait"), st.sampled_from([1, 400, 1_500]), st.none(), st.none()),
        st.tuples(st.just("clean"), st.none(), st.none(), st.none()),
    ),
    max_size=25,
)


class Model:
    """The tokens as the documentation of KIP-48 has them: number → (owner and renewers, expiry, end)."""

    def __init__(self, lifetimes: TokenLifetimes) -> None:
        self.lifetimes = lifetimes
        self.tokens: dict[int, tuple[set[str], int, int]] = {}

    def create(self, number: int, people: set[str], lifetime_ms: int, now_ms: int) -> tuple[int, int]:
        end = now_ms + (self.lifetimes.max_ms if lifetime_ms <= 0 else min(lifetime_ms, self.lifetimes.max_ms))
        self.tokens[number] = people, min(end, now_ms + self.lifetimes.expiry_ms), end
        return self.tokens[number][1:]

    def change(self, kind: str, who: str, number: int, period_ms: int, now_ms: int) -> int | type[BrokerError]:
        if number not in self.tokens:
            return TokenNotFoundError
        people, expiry_ms, end = self.tokens[number]
        if who not in people:
            return TokenOwnerMismatchError
        if expiry_ms < now_ms or end < now_ms:
            return TokenExpiredError
        if kind == "expire" and period_ms < 0:
            del self.tokens[number]
            return now_ms
        period_ms = self.lifetimes.expiry_ms if period_ms < 0 else period_ms
        self.tokens[number] = people, min(end, now_ms + period_ms), end
        return self.tokens[number][1]

    def clean(self, now_ms: int) -> None:
        self.tokens = {number: found for number, found in self.tokens.items() if min(found[1:]) >= now_ms}


async def _outcome(work: Awaitable[int]) -> int | type[BrokerError]:
    try:
        return await work
    except BrokerError as error:
        return type(error)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.lists(st.booleans(), min_size=25, max_size=25))
def test_random_orders(steps: list[tuple[Any, ...]], places: list[bool]) -> None:
    lifetimes = TokenLifetimes(2_500, 1_000)
    model = Model(lifetimes)
    made: list[DelegationToken] = []

    async def scenario(clock: ManualClock, one: Side, two: Side) -> None:
        for (kind, first, second, period_ms), is_at_one in zip(steps, places, strict=False):
            side = one if is_at_one else two
            now_ms = clock.now_ms()
            if kind == "create":
                token = await side.create(first, *second, lifetime_ms=period_ms)
                expected = model.create(len(made), {first, *second}, period_ms, now_ms)
                assert (token.expiry_ms, token.max_ms) == expected
                made.append(token)
            elif kind == "wait":
                clock.advance(first)
            elif kind == "clean":
                model.clean(now_ms)
                side.tokens.remove_expired()
            else:
                hmac = side.hmac(made[second]) if second < len(made) else b""
                change = side.tokens.renew if kind == "renew" else side.tokens.expire
                assert await _outcome(change(first, hmac, period_ms)) == model.change(
                    kind, first, second, period_ms, now_ms
                )
            await _rounds()
            numbers = {token.token_id: number for number, token in enumerate(made)}
            for each in (one, two):
                assert {numbers[token.token_id]: token.expiry_ms for token in each.cache.tokens()} == {
                    number: found[1] for number, found in model.tokens.items()
                }

    _with_two(scenario, lifetimes)
