"""One test for each class of attack in public advisories that is not tested elsewhere under its name.

Elsewhere: CVE-2022-34917 (`compat_tests/attack/test_strangers.py`), CVE-2021-38153 and CVE-2024-56128
(`tests/security/`), CVE-2023-34455 (`compat_tests/attack/test_connections.py`), CVE-2024-27309
(`tests/metadata/`), CVE-2025-27817 (`tests/security/test_oauth_keys.py`), PLAIN before the handshake, downgrade of
mechanisms, and sessions that have expired (`tests/server/test_sasl.py`), log injection
(`compat_tests/attack/test_log_injection.py`).
"""

import socket
from pathlib import Path
from typing import Any

import pytest

from harness.cases.access_cases import on_group, on_id, on_topic
from harness.client import Client, batch, fetch_request, produce_request
from kafkapy.protocol.constants import AclOperation as Op
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.records.record import Record, encode_batch
from kafkapy.security.scram import ScramCredential, scram_client
from tests.server.access.guarded import Guarded, guarded_broker
from tests.server.harness import run, until
from tests.server.test_sasl import authenticated, broker_with_sasl

SCRAM = "SCRAM-SHA-256"


def test_a_client_can_t_fetch_as_a_replica(tmp_path: Path) -> None:
    """CVE-2018-1288: a fetch with a replica id is one of a broker, and would move the high watermark."""

    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await guarded.admin.create_topic("t")
            guarded.allow(on_topic(Op.READ))
            own = fetch_request("t")
            assert _fetched(await guarded.alice.ask(own, 11)) == (0, 0)
            own.replica_id = 1
            forged = await guarded.alice.ask(own, 11)
            assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in _fetched(forged)

    run(scenario())


def _fetched(response: Any) -> tuple[int, int]:
    return response.error_code, response.responses[0].partitions[0].error_code


@pytest.mark.parametrize("token", [b"bob\0alice\0alice-secret", b"\0bob\0alice-secret"], ids=["as-bob", "is-bob"])
def test_a_user_can_t_be_another_one_with_plain(token: bytes, tmp_path: Path) -> None:
    """CVE-2017-12610: an authorization id, or a name, that the password is not of."""

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path) as broker:
            client = await Client.connect(broker, 1)
            await client.ask(SaslHandshakeRequest("PLAIN"), 1)
            answer = await client.ask(SaslAuthenticateRequest(token), 1)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.is_closed()

    run(scenario())


def test_records_of_a_transaction_need_the_right_for_its_id(tmp_path: Path) -> None:
    """CVE-2018-17196: a request without the id of the transaction that its records are of."""
    records = encode_batch(
        [Record(None, b"v")], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )

    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await guarded.admin.create_topic("t")
            guarded.allow(on_topic(Op.WRITE))
            assert await _produced(guarded, None, batch(b"v")) == 0
            for transactional_id in (None, "x"):
                refused = await _produced(guarded, transactional_id, records)
                assert refused == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    run(scenario())


async def _produced(guarded: Guarded, transactional_id: str | None, records: bytes) -> int:
    request = produce_request("t", records)
    request.transactional_id = transactional_id
    answer = await guarded.alice.ask(request, 8)
    return int(answer.responses[0].partition_responses[0].error_code)


def test_a_transaction_can_t_commit_offsets_of_a_foreign_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await guarded.admin.create_topic("t")
            rights = on_id(Op.WRITE), on_topic(Op.READ)
            guarded.allow(*rights)
            ask = guarded.alice.ask
            await guarded.admin.ask(FindCoordinatorRequest("x", 1), 1)
            while (own := await ask(InitProducerIdRequest("x", 60_000), 1)).error_code:
                await guarded.broker.clock.sleep(10)  # the coordinator is being made
            added = AddOffsetsToTxnRequest("x", own.producer_id, own.producer_epoch, "g")
            assert (await ask(added, 0)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            topics = [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 1, -1, "")])]
            commit = TxnOffsetCommitRequest("x", "g", own.producer_id, own.producer_epoch, topics=topics)
            answer = await ask(commit, 2)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            guarded.allow(*rights, on_group(Op.READ))
            assert (await ask(added, 0)).error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED

    run(scenario())


@pytest.mark.parametrize(
    "name", ["../t", "..", ".", "/t", "t/../u", "t\\u", "t\0", "\ufb02ights", "t\u0301", "\uff54", " t", "t\n"]
)
def test_names_of_topics_are_no_paths_and_are_not_normalised(name: str, tmp_path: Path) -> None:
    """A name that is changed after the check of the rights, or is the path of another directory."""

    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            request = CreateTopicsRequest([CreatableTopic(name, 1, 1)], timeout_ms=5000)
            answer = await guarded.admin.ask(request, 4)
            assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(scenario())


@pytest.mark.parametrize("name", ["T", "t.", "tt", "t-0"])
def test_rights_for_a_topic_are_for_its_exact_name(name: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            for each in ("t", name):
                await guarded.admin.create_topic(each)
            guarded.allow(on_topic(Op.READ))
            assert _fetched(await guarded.alice.ask(fetch_request(name), 11))[1] == 29
            assert _fetched(await guarded.alice.ask(fetch_request("t"), 11))[1] == 0

    run(scenario())


def test_configurations_load_no_code_and_reach_no_server(tmp_path: Path) -> None:
    """CVE-2025-27818 and -27819: login modules that ask LDAP or JNDI for classes. Here a module is a name alone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        url = f"ldap://127.0.0.1:{port}/x"
        jaas = (
            f'com.sun.security.auth.module.JndiLoginModule required user.provider.url="{url}"'
            f' group.provider.url="{url}" useFirstPass="true" serviceName="x" user_alice="alice-secret";'
        )

        async def scenario() -> None:
            key = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas}
            async with broker_with_sasl(tmp_path, **key) as broker:
                assert await authenticated(broker)

        run(scenario())
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_revoked_credential_ends_an_open_connection_at_its_next_authentication(tmp_path: Path) -> None:
    key = {"connections.max.reauth.ms": "60000"}

    async def log_in(client: Client) -> Any:
        assert (await client.ask(SaslHandshakeRequest(SCRAM), 1)).error_code == 0
        steps = scram_client(SCRAM, "carol", "secret")
        first = await client.ask(SaslAuthenticateRequest(next(steps)), 1)
        return await client.ask(SaslAuthenticateRequest(steps.send(first.auth_bytes)), 1) if first.auth_bytes else first

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path, **key) as broker:
            admin = broker.services.config_admin
            credential = ScramCredential.of_password(SCRAM, "secret", b"salt", 4096)
            await admin.set_user_overrides("carol", {SCRAM: str(credential)})
            await until(lambda: bool(admin.cached_user_overrides("carol")))
            client = await Client.connect(broker, 1)
            assert (await log_in(client)).session_lifetime_ms == 60_000
            await admin.set_user_overrides("carol", {})
            await until(lambda: not admin.cached_user_overrides("carol"))
            await broker.clock.sleep(1_000)  # no client may authenticate twice within a second
            assert (await log_in(client)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.is_closed()

    run(scenario())
