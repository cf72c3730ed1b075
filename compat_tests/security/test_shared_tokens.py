"""One broker of Apache Kafka 2.7.2 and one of kafkapy, with one ZooKeeper: each knows the other's delegation tokens."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from compat_tests.cluster.both import APACHE
from compat_tests.security.logins import created, log_in_by, logged_in
from harness.cluster import CHROOTS, SETTINGS
from harness.kafkapy_process import KafkapyProcess
from harness.process import HOST, ChildProcess, free_port, wait_for
from harness.real_kafka import RealKafka, ZooKeeper
from harness.wire import Wire
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkapy.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkapy.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

pytestmark = [pytest.mark.java, pytest.mark.together, pytest.mark.timeout(300)]

MECHANISM: Final = "SCRAM-SHA-256"
MODULES: Final = "org.apache.kafka.common.security"
USERS: Final = {"alice": "alice-secret", "bob": "bob-secret", "eve": "eve-secret"}
PERIOD_MS: Final = 5_000_000


class Side:
    """One of the two brokers."""

    def __init__(self, process: ChildProcess, zookeeper_connect: str, broker_id: int) -> None:
        self.process = process
        self.address = f"{HOST}:{free_port()}"
        users = "".join(f' user_{name}="{password}"' for name, password in USERS.items())
        process.overrides |= {
            **SETTINGS,
            "broker.id": str(broker_id),
            "zookeeper.connect": zookeeper_connect,
            "listeners": f"PLAINTEXT://{process.bootstrap},CLIENTS://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
            "listener.name.clients.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required{users};",
            "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS",
            "delegation.token.master.key": "the-master-key",
            "delegation.token.expiry.check.interval.ms": "1000",
        }

    def user(self, name: str) -> Any:
        return logged_in(self.address, "PLAIN", name, USERS[name])

    def tokens(self, user: str = "alice") -> dict[str, tuple[str, list[str], int, bytes]]:
        """The tokens that a user sees: owner, renewers, expiry and HMAC by id."""
        with self.user(user) as wire:
            answer = wire.ask(DescribeDelegationTokenRequest(None), 2)
        return {
            each.token_id: (
                each.principal_name,
                [renewer.principal_name for renewer in each.renewers],
                each.expiry_timestamp,
                bytes(each.hmac),
            )
            for each in answer.tokens
        }


@pytest.fixture(scope="module")
def sides(zookeeper: ZooKeeper) -> Iterator[dict[str, Side]]:
    connect = f"{zookeeper.bootstrap}{next(CHROOTS)}"
    apache = Side(RealKafka(APACHE, zookeeper=zookeeper, heap="256M"), connect, 1)
    ours = Side(KafkapyProcess(config={}), connect, 2)
    try:
        for side in (apache, ours):
            side.process.start()
        yield {"Apache Kafka": apache, "kafkapy": ours}
    finally:
        for side in (apache, ours):
            side.process.close()


@pytest.mark.parametrize("maker", ["Apache Kafka", "kafkapy"])
def test_a_token_of_one_broker_holds_on_the_other(sides: dict[str, Side], maker: str) -> None:
    one = sides[maker]
    (two,) = (side for name, side in sides.items() if name != maker)
    with one.user("alice") as alice, two.user("bob") as bob:
        token = created(alice, "bob", "é:=, *~+%")
        assert wait_for(lambda: token.token_id in two.tokens(), 30)
        assert one.tokens() == two.tokens()
        with Wire(two.address) as wire:
            assert log_in_by(wire, MECHANISM, token).error_code == 0
        renewed = bob.ask(RenewDelegationTokenRequest(token.hmac, PERIOD_MS), 2)
        assert renewed.error_code == 0
        assert wait_for(lambda: one.tokens()[token.token_id][2] == renewed.expiry_timestamp_ms, 30)
        assert alice.ask(ExpireDelegationTokenRequest(token.hmac, 2 * PERIOD_MS), 2).error_code == 0
        assert wait_for(lambda: one.tokens() == two.tokens(), 30)
        assert bob.ask(ExpireDelegationTokenRequest(token.hmac, -1), 2).error_code == 0
        assert wait_for(lambda: token.token_id not in one.tokens(), 30)
        with Wire(one.address) as wire:
            assert log_in_by(wire, MECHANISM, token).error_code == 58


@pytest.mark.parametrize("maker", ["Apache Kafka", "kafkapy"])
def test_others_need_the_right_to_describe_a_token(sides: dict[str, Side], maker: str) -> None:
    both = list(sides.values())
    with sides[maker].user("alice") as alice:
        one, two = created(alice, "bob").token_id, created(alice).token_id
    assert wait_for(lambda: all({one, two} <= side.tokens().keys() for side in both), 30)
    for side in both:
        assert {one, two}.intersection(side.tokens("bob")) == {one}
        assert {one, two}.isdisjoint(side.tokens("eve"))
    creation = AclCreation(
        resource_type=AclResourceType.DELEGATION_TOKEN,
        resource_name=two,
        resource_pattern_type=AclPatternType.LITERAL,
        principal="User:eve",
        host="*",
        operation=AclOperation.DESCRIBE,
        permission_type=AclPermissionType.ALLOW,
    )
    with Wire(sides[maker].process.bootstrap) as admin:
        (result,) = admin.ask(CreateAclsRequest([creation]), 2).results
    assert result.error_code == 0
    assert wait_for(lambda: all(two in side.tokens("eve") for side in both), 30)
    assert all(one not in side.tokens("eve") for side in both)


def test_expired_tokens_of_both_are_removed(sides: dict[str, Side]) -> None:
    made = set()
    for side in sides.values():
        with side.user("alice") as alice:
            made.add(created(alice, lifetime_ms=2_000).token_id)
    assert wait_for(lambda: all(made.isdisjoint(side.tokens()) for side in sides.values()), 60)


def test_a_broker_that_starts_reads_the_tokens(sides: dict[str, Side]) -> None:
    with sides["Apache Kafka"].user("alice") as alice:
        token = created(alice, "bob")
    ours = sides["kafkapy"]
    ours.process.stop()
    ours.process.start()
    assert ours.tokens() == sides["Apache Kafka"].tokens()
    with Wire(ours.address) as wire:
        assert log_in_by(wire, MECHANISM, token).error_code == 0
