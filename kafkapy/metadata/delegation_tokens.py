"""TokenStore: delegation tokens in Kafka's tree, as Apache Kafka's DelegationTokenManager reads and writes them.

Each token has a node, ``/delegation_token/tokens/<id>``. A change comes with a note (``change_notes.py``) below
``/delegation_token/token_changes``, whose data is the id; every broker reads the token again. Every broker answers
requests about tokens itself. Nodes have no HMAC: a broker computes it from ``delegation.token.master.key``.

Times are those of the broker's clock in milliseconds. A sum that exceeds 64 bits is the largest number there: Apache
Kafka's becomes negative, so that a token with such a time has expired at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import ClassVar, Final, NamedTuple
from urllib.parse import unquote_plus
from uuid import uuid4

from kafkapy.clock import Clock
from kafkapy.errors import BrokerError
from kafkapy.metadata.change_notes import MOST_TRIES, ChangeNotes, change_with_note
from kafkapy.metadata.exchange.consumer_offsets import FORBIDDEN_IN_PATH
from kafkapy.metadata.store import (
    CLIENT_WAIT_MS,
    BadVersionError,
    Create,
    Delete,
    MetadataStore,
    Node,
    NoNodeError,
    Operation,
    SessionEndedError,
    SetData,
    StoreError,
    ensure_path,
    in_time,
)
from kafkapy.metadata.znodes import ForeignDataError, decode_json, decoded, encode_json, required, tree_name
from kafkapy.protocol.errors import ErrorCode
from kafkapy.security.delegation_tokens import DelegationToken, TokenCache
from kafkapy.turns import pause, pieces
from kafkapy.types import base64_id

logger: Final = logging.getLogger(__name__)

NODES_AT_ONCE: Final = 100
"""Nodes that are read together."""
MOST_BYTES: Final = 250_000
"""Of a token's node, which every broker reads whole: more than 10,000 renewers. A ZooKeeper takes about 1 MB."""
_LATEST_MS: Final = 2**63 - 1
_NEWEST_VERSION = _VERSION_OF_REQUESTERS = 3
"""Keys of later releases that are not known here are kept when a token is renewed."""


class TokenNotFoundError(BrokerError):
    """No token has this HMAC."""

    error_code: ClassVar[int] = ErrorCode.DELEGATION_TOKEN_NOT_FOUND


class TokenOwnerMismatchError(BrokerError):
    """The client is neither the owner of the token, nor who created it, nor one of its renewers."""

    error_code: ClassVar[int] = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


class TokenExpiredError(BrokerError):
    """The token has expired."""

    error_code: ClassVar[int] = ErrorCode.DELEGATION_TOKEN_EXPIRED


class TokenTooLargeError(BrokerError):
    """The token has too many renewers for one node of the store."""

    error_code: ClassVar[int] = ErrorCode.INVALID_REQUEST


class TokenNotStoredError(BrokerError):
    """Other brokers change the token too often."""


class TokenZNode:
    """``/delegation_token/tokens/<id>``: a token without its HMAC."""

    PARENT: Final = "/delegation_token/tokens"
    EXPIRY: Final = "expiryTimestamp"
    REQUESTER: Final = "tokenRequester"

    @classmethod
    def path(cls, token_id: str) -> str:
        """The path of a token; raises ValueError for an id that no path can have in it."""
        path = f"{cls.PARENT}/{token_id}"
        if not token_id or "/" in token_id or FORBIDDEN_IN_PATH.search(path):
            raise ValueError(f"{token_id!r} is no id of a delegation token")
        return path

    @classmethod
    def encode(cls, token: DelegationToken, renewers: Sequence[str]) -> bytes:
        """Version 1, or 3 if another than the owner has created the token; ``renewers`` as ``tree_name`` writes them.

        Apache Kafka 2.7 reads version 1 alone.
        """
        is_others = token.requester != token.owner
        requester = {cls.REQUESTER: tree_name(token.requester)} if is_others else {}
        return encode_json(
            {
                "issueTimestamp": token.issue_ms,
                "renewers": renewers,
                "tokenId": token.token_id,
                "owner": tree_name(token.owner),
                **requester,
                cls.EXPIRY: token.expiry_ms,
                "maxTimestamp": token.max_ms,
                "version": _NEWEST_VERSION if is_others else 1,
            }
        )

    @classmethod
    def with_expiry(cls, data: bytes | None, expiry_ms: int) -> bytes:
        """The data of a token with another time of its expiry."""
        return encode_json(decode_json(data) | {cls.EXPIRY: expiry_ms})

    @classmethod
    def decode(cls, data: bytes | None) -> DelegationToken:
        """Versions 1 to 3; raises ValueError."""
        value = decode_json(data)
        version = int(required(value, "version"))
        if not 0 < version <= _NEWEST_VERSION:
            raise ValueError(f"unknown version {value['version']!r}")
        owner = required(value, "owner")
        return DelegationToken(
            str(required(value, "tokenId")),
            _principal(owner),
            _principal(required(value, cls.REQUESTER) if version >= _VERSION_OF_REQUESTERS else owner),
            tuple(_principal(each) for each in required(value, "renewers")),
            int(required(value, "issueTimestamp")),
            int(required(value, cls.EXPIRY)),
            int(required(value, "maxTimestamp")),
        )


def _principal(text: object) -> str:
    kind, colon, name = str(text).replace("%3A", ":", 1).partition(":")  # most names have nothing else that is encoded
    if not colon:
        raise ValueError(f"{text!r} is not TYPE:NAME")
    return f"{unquote_plus(kind, errors='strict')}:{unquote_plus(name, errors='strict')}"


class TokenChangesZNode:
    """``/delegation_token/token_changes``: its children are the notes; the data of each is a token's id."""

    PATH: Final = "/delegation_token/token_changes"
    CHILD: Final = "token_change_"

    @classmethod
    def note(cls, token_id: str) -> Create:
        """The operation that announces a change of a token."""
        return Create(f"{cls.PATH}/{cls.CHILD}", token_id.encode(), sequential=True)

    @staticmethod
    def decode(data: bytes | None) -> str:
        """Plain text."""
        return (data or b"").decode()


class TokenLifetimes(NamedTuple):
    """``delegation.token.max.lifetime.ms`` and ``delegation.token.expiry.time.ms``."""

    max_ms: int
    expiry_ms: int


def new_token_id() -> str:
    """A random UUID in Kafka's base64."""
    return base64_id(uuid4().bytes)


class TokenStore:
    """Keeps ``cache`` like the tokens in the store, and changes the tokens for clients."""

    def __init__(
        self,
        clock: Clock,
        store: MetadataStore,
        cache: TokenCache,
        lifetimes: TokenLifetimes,
        new_id: Callable[[], str] = new_token_id,
    ) -> None:
        self.cache: Final = cache
        self._clock = clock
        self._store = store
        self._lifetimes = lifetimes
        self._new_id = new_id
        self._one_at_a_time = asyncio.Lock()
        """Orders reads and writes, so that no older token replaces a newer one."""
        self._loading: asyncio.Task[None] | None = None
        self._removing: asyncio.Task[None] | None = None
        place = TokenChangesZNode.PATH, TokenChangesZNode.CHILD
        self._notes = ChangeNotes(clock, store, place, self._apply_note, "Changes of delegation tokens")

    async def start(self) -> None:
        """Read all tokens, and their changes from now on. A token that can't be read is left out, as in 2.7.2."""
        await ensure_path(self._store, TokenChangesZNode.PATH)
        await ensure_path(self._store, TokenZNode.PARENT)
        await self._notes.start()  # first: a change is read twice rather than missed
        await self._load()

    async def stop(self) -> None:
        """Read no more changes."""
        for task in (self._loading, self._removing):
            if task is not None:
                task.cancel()
        await self._notes.stop()

    def session_renewed(self) -> None:
        """Read everything again: notes may have been deleted while there was no session."""
        if self._loading is not None:
            self._loading.cancel()
        self._loading = asyncio.create_task(self._logging_failures(self._load), name="load-delegation-tokens")
        self._notes.read()

    async def create(
        self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int
    ) -> DelegationToken:
        """Store a new token; ``max_lifetime_ms`` may only shorten the broker's own limit, and 0 or less is that limit.

        Raises TokenTooLargeError, RequestTimedOutError and other errors of the store.
        """
        now_ms = self._clock.now_ms()
        longest_ms = self._lifetimes.max_ms
        lifetime_ms = min(max_lifetime_ms, longest_ms) if max_lifetime_ms > 0 else longest_ms
        max_ms = _sum(now_ms, lifetime_ms)
        expiry_ms = min(max_ms, _sum(now_ms, self._lifetimes.expiry_ms))
        token = DelegationToken(self._new_id(), owner, requester, tuple(renewers), now_ms, expiry_ms, max_ms)
        data = await _encoded(token)
        await in_time(self._store, self._clock, CLIENT_WAIT_MS, self._create(token, data))
        logger.info("Created delegation token %s of %s for %s", token.token_id, owner, requester)
        return token

    async def _create(self, token: DelegationToken, data: bytes) -> None:
        async with self._one_at_a_time:
            await self._write(token.token_id, Create(TokenZNode.path(token.token_id), data))
            self.cache.put(token)

    async def renew(self, principal: str, token_hmac: bytes, period_ms: int) -> int:
        """Let a token expire later or earlier, and return when: after ``period_ms``, below 0 after the usual time.

        Raises TokenNotFoundError, TokenOwnerMismatchError, TokenExpiredError, and errors of the store.
        """
        period_ms = self._lifetimes.expiry_ms if period_ms < 0 else period_ms
        return await self._expire_after(principal, token_hmac, period_ms)

    async def expire(self, principal: str, token_hmac: bytes, period_ms: int) -> int:
        """Let a token expire after ``period_ms``, and return when; below 0 remove it now.

        Raises the errors of ``renew``.
        """
        return await self._expire_after(principal, token_hmac, None if period_ms < 0 else period_ms)

    async def _expire_after(self, principal: str, token_hmac: bytes, period_ms: int | None) -> int:
        work = self._change(principal, token_hmac, period_ms)
        return await in_time(self._store, self._clock, CLIENT_WAIT_MS, work)

    async def _change(self, principal: str, token_hmac: bytes, period_ms: int | None) -> int:
        async with self._one_at_a_time:
            token_id = self.cache.id_of(token_hmac)
            if token_id is None:
                raise TokenNotFoundError("There is no such delegation token")
            path, note = TokenZNode.path(token_id), TokenChangesZNode.note(token_id)

            async def decide(node: Node | None) -> tuple[Operation, DelegationToken]:
                token = self._keep(token_id, node)
                if token is None or node is None:
                    raise TokenNotFoundError("There is no such delegation token any more")
                now_ms = self._clock.now_ms()
                _check_change(token, principal, now_ms)
                if period_ms is None:
                    return Delete(path, node.stat.version), token._replace(expiry_ms=now_ms)
                expiry_ms = min(token.max_ms, _sum(now_ms, period_ms))
                data = TokenZNode.with_expiry(node.data, expiry_ms)
                return SetData(path, data, node.stat.version), token._replace(expiry_ms=expiry_ms)

            too_often = TokenNotStoredError(f"Other brokers changed the delegation token each of {MOST_TRIES} times")
            token = await change_with_note(self._clock, self._store, path, note, decide, too_often)
            if period_ms is None:
                self.cache.remove(token_id)
                logger.info("Removed delegation token %s of %s for %s", token_id, token.owner, principal)
            else:
                self.cache.put(token)
                logger.info("Delegation token %s of %s expires at %d", token_id, token.owner, token.expiry_ms)
            return token.expiry_ms

    async def _remove(self, token_id: str, node: Node) -> bool:
        """Delete a token; False if another broker has changed it since it was read."""
        try:
            await self._write(token_id, Delete(TokenZNode.path(token_id), node.stat.version))
        except (BadVersionError, NoNodeError):
            return False
        self.cache.remove(token_id)
        return True

    async def _write(self, token_id: str, operation: Operation) -> None:
        """Make a change and its note together: a change without a note would not be applied."""
        await self._store.multi([operation, TokenChangesZNode.note(token_id)])

    def remove_expired(self) -> None:
        """Remove the tokens that have expired, in a task; the controller calls this again and again."""
        if self._removing is None or self._removing.done():
            work = self._logging_failures(self._remove_expired)
            self._removing = asyncio.create_task(work, name="remove-expired-delegation-tokens")

    async def _remove_expired(self) -> None:
        now_ms = self._clock.now_ms()
        expired = [token.token_id for token in self.cache.tokens() if token.is_expired(now_ms)]
        for some in pieces(expired, NODES_AT_ONCE):
            async with self._one_at_a_time:
                for token_id, node in zip(some, await self._nodes(some), strict=True):
                    token = self._keep(token_id, node)  # another broker may have renewed or removed it
                    if token is None or node is None or not token.is_expired(now_ms):
                        continue
                    if await self._remove(token_id, node):
                        logger.info("Delegation token %s of %s has expired", token_id, token.owner)

    async def _apply_note(self, data: bytes | None) -> None:
        await self._read([TokenChangesZNode.decode(data)])

    async def _read(self, token_ids: Sequence[str]) -> None:
        async with self._one_at_a_time:
            for token_id, node in zip(token_ids, await self._nodes(token_ids), strict=True):
                self._keep(token_id, node)

    async def _nodes(self, token_ids: Iterable[str]) -> list[Node | None]:
        return await self._store.get_many([TokenZNode.path(token_id) for token_id in token_ids])

    def _keep(self, token_id: str, node: Node | None) -> DelegationToken | None:
        """Let the cache have what a token's node has, and return the token; None without one that can be read."""
        token = None
        if node is not None:
            try:
                token = decoded(TokenZNode.path(token_id), node.data, TokenZNode.decode)
            except ForeignDataError as error:
                logger.error("A delegation token can't be used: %s", error)
        if token is None or token.token_id != token_id:
            self.cache.remove(token_id)
            return None
        self.cache.put(token)
        return token

    async def _load(self) -> None:
        present = await self._store.children(TokenZNode.PARENT)
        gone = {token.token_id for token in self.cache.tokens()}.difference(present)
        for some in pieces([*present, *gone], NODES_AT_ONCE):
            await self._read(some)

    @staticmethod
    async def _logging_failures(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except SessionEndedError:
            logger.debug("Delegation tokens are not read: the session has ended")
        except StoreError as error:
            logger.error("Delegation tokens could not be read or removed: %s", error)


def _check_change(token: DelegationToken, principal: str, now_ms: int) -> None:
    """Check what 2.7.2 checks before it changes a token, in its order."""
    if not token.belongs_to(principal):
        raise TokenOwnerMismatchError(f"{principal} is neither the owner of the delegation token nor a renewer")
    if token.is_expired(now_ms):
        raise TokenExpiredError("The delegation token has expired")


async def _encoded(token: DelegationToken) -> bytes:
    """Return a token's node; raises TokenTooLargeError."""
    size = 0
    written = []
    for renewer in token.renewers:
        written.append(tree_name(renewer))
        size += len(written[-1])
        if size > MOST_BYTES:
            break
        await pause()
    data = TokenZNode.encode(token, written)
    if size > MOST_BYTES or len(data) > MOST_BYTES:
        raise TokenTooLargeError(f"The token would take more than {MOST_BYTES} bytes: it has too many renewers")
    return data


def _sum(time_ms: int, period_ms: int) -> int:
    return min(time_ms + period_ms, _LATEST_MS)
