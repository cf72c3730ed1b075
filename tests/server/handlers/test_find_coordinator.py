from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidReplicationFactorError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.server.handlers import find_coordinator
from tests.coordinator.world import World
from tests.server.handlers.groups_context import ELSEWHERE, Asker, image
from tests.server.handlers.transactions_context import TransactionAsker


class Admin:
    """Creates the topic, or fails with an error; its leader may stay unknown."""

    def __init__(self, asker: Asker, error: BrokerError | None = None, leader: int = 0) -> None:
        self.asker, self.error, self.leader = asker, error, leader

    async def create_automatically(self, names: Sequence[str]) -> dict[str, BrokerError | None]:
        if self.error is None:
            self.asker.world.broker.image = image(*names, leader=self.leader)
            self.asker.world.broker.set_partition_count(GROUP_METADATA_TOPIC, 1)
        return dict.fromkeys(names, self.error)


def without_topic() -> Asker:
    asker = Asker(World(leads=False))
    asker.world.broker.image = image("t")

    async def wait_until(predicate: Callable[[Any], bool], _timeout_ms: float, _clock: object) -> bool:
        return predicate(asker.world.broker.image)

    asker.world.broker.wait_until = wait_until  # type: ignore[attr-defined]  # what MetadataCache has beside a listener
    return asker


@pytest.mark.parametrize("version", range(4))
def test_this_broker_is_found_as_the_coordinator(version: int) -> None:
    response = Asker().ask(find_coordinator, FindCoordinatorRequest("g"), version)
    assert (response.error_code, response.node_id, response.host, response.port) == (0, 0, "here", 9092)
    assert response.error_message == ("NONE" if version else "")


@pytest.mark.parametrize("version", [4, 5, 6])
def test_several_keys_have_a_coordinator_each(version: int) -> None:
    asker = Asker()
    answer = asker.ask(find_coordinator, FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"]), version)
    assert [(each.key, each.error_code, each.host) for each in answer.coordinators] == [
        ("g", 0, "here"),
        ("h", 0, "here"),
    ]
    asker.world.broker.image = image(GROUP_METADATA_TOPIC, leader=7)
    (row,) = asker.ask(
        find_coordinator, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), version
    ).coordinators
    assert (row.error_code, row.node_id, row.port) == (15, -1, -1)
    (row,) = asker.ask(
        find_coordinator, FindCoordinatorRequest(key_type=2, coordinator_keys=["g"]), version
    ).coordinators
    assert row.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("error", "expected"), [(None, 0), (InvalidReplicationFactorError("1 broker"), 15)])
def test_the_topic_is_created_for_several_keys(error: BrokerError | None, expected: int) -> None:
    asker = without_topic()
    asker.services.topic_admin = Admin(asker, error)  # type: ignore[assignment]  # what the handler needs of it
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"])
    answer = asker.ask(find_coordinator, request, 4)
    assert [each.error_code for each in answer.coordinators] == [expected, expected]


def test_another_broker_is_found_as_the_coordinator() -> None:
    asker = Asker()
    asker.world.broker.image = image(GROUP_METADATA_TOPIC, leader=ELSEWHERE)
    response = asker.ask(find_coordinator, FindCoordinatorRequest("g"), 3)
    assert (response.node_id, response.host, response.port) == (ELSEWHERE, "elsewhere", 9093)


@pytest.mark.parametrize("leader", [-1, 7])
def test_a_leader_that_is_not_alive_is_not_available(leader: int) -> None:
    asker = Asker()
    asker.world.broker.image = image(GROUP_METADATA_TOPIC, leader=leader)
    response = asker.ask(find_coordinator, FindCoordinatorRequest("g"), 3)
    assert (response.error_code, response.node_id, response.host, response.port) == (15, -1, "", -1)
    assert response.error_message == ErrorCode.COORDINATOR_NOT_AVAILABLE.message


@pytest.mark.parametrize("key_type", [2, -1])
def test_unknown_key_types_are_refused(key_type: int) -> None:
    assert Asker().ask(find_coordinator, FindCoordinatorRequest("g", key_type), 1).error_code == -1


def test_transactional_ids_have_a_topic_of_their_own() -> None:
    asker = TransactionAsker()
    asker.transactions.broker.image = image(GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
    response = asker.ask(find_coordinator, FindCoordinatorRequest("x", 1), 3)
    assert (response.error_code, response.node_id, response.host, response.port) == (0, 0, "here", 9092)
    asker.transactions.broker.image = image(GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, leader=ELSEWHERE)
    assert asker.ask(find_coordinator, FindCoordinatorRequest("x", 1), 3).node_id == ELSEWHERE


@pytest.mark.parametrize(("leader", "expected"), [(0, 0), (-1, 15)])
def test_the_topic_is_created_when_it_is_first_needed(leader: int, expected: int) -> None:
    asker = without_topic()
    asker.services.topic_admin = Admin(asker, leader=leader)
    assert asker.ask(find_coordinator, FindCoordinatorRequest("g"), 3).error_code == expected


def test_too_few_brokers_for_the_topic(caplog: pytest.LogCaptureFixture) -> None:
    asker = without_topic()
    asker.services.topic_admin = Admin(asker, InvalidReplicationFactorError("3 of 1"))
    assert asker.ask(find_coordinator, FindCoordinatorRequest("g"), 3).error_code == 15
    assert "Could not create __consumer_offsets: 3 of 1" in caplog.text


def test_a_new_topic_without_a_leader_is_not_available_after_the_timeout() -> None:
    asker = without_topic()
    asker.services.topic_admin = Admin(asker, leader=7)
    assert asker.ask(find_coordinator, FindCoordinatorRequest("g"), 0).error_code == 15


def test_the_topic_is_there_when_its_partitions_are_counted() -> None:
    """An image that shows the topic may lack some of its partitions."""
    asker = without_topic()
    asker.world.broker.image = image("t", GROUP_METADATA_TOPIC)
    created: list[str] = []

    async def create_automatically(names: Sequence[str]) -> dict[str, BrokerError | None]:
        created.extend(names)
        return dict.fromkeys(names)  # another request has created it

    asker.services.topic_admin = SimpleNamespace(create_automatically=create_automatically)
    assert asker.ask(find_coordinator, FindCoordinatorRequest("g"), 3).error_code == 15
    asker.world.broker.set_partition_count(GROUP_METADATA_TOPIC, 1)
    assert asker.ask(find_coordinator, FindCoordinatorRequest("g"), 3).node_id == 0
    assert created == [GROUP_METADATA_TOPIC]
