"""The configuration of topics that a mirror keeps in step, between two brokers in this process."""

from collections.abc import Iterator

import pytest

from kafkapy.clients import configs
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import NotServedError
from kafkapy.clients.mirror import settings
from kafkapy.clients.mirror.positions import commit, positions
from kafkapy.clients.topics import create_topic
from kafkapy.testing import Broker
from tests.clients.mirrors import copied, mirrored


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def _create(broker: Broker, topic: str, **values: str) -> None:
    with ClusterClient(broker.bootstrap) as client:
        create_topic(client, topic, partitions=1, configs=_keys(values))


def _set(broker: Broker, topic: str, *deleted: str, **values: str) -> None:
    with ClusterClient(broker.bootstrap) as client:
        configs.alter(client, "topic", topic, _keys(values), [key.replace("_", ".") for key in deleted])


def _keys(values: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in values.items()}


def _own(broker: Broker, topic: str) -> dict[str, str | None]:
    with ClusterClient(broker.bootstrap) as client:
        return {each.name: each.value for each in configs.describe(client, "topic", topic) if each.config_source == 1}


def test_changes_are_made_on_the_target(source: Broker, target: Broker) -> None:
    _create(source, "follows", retention_ms="1000000", segment_bytes="5000000")
    with mirrored(source, target, "follows", once=False, refresh_every_s=0) as running:
        _set(target, "follows", max_message_bytes="5000")
        _set(source, "follows", "segment_bytes", retention_ms="2000000", cleanup_policy="compact,delete")
        running.mirror.step()
        assert _own(target, "follows") == {
            "retention.ms": "2000000", "cleanup.policy": "compact,delete", "max.message.bytes": "5000"
        }  # fmt: skip
        assert sorted(running.lines[1:]) == [
            "topic follows: cleanup.policy=compact,delete is set on the target, as on the source",
            "topic follows: retention.ms=2000000 is set on the target, as on the source",
            "topic follows: segment.bytes is deleted on the target, as on the source",
        ]
        _set(target, "follows", retention_ms="7000")
        running.mirror.step()
        assert _own(target, "follows")["retention.ms"] == "7000", "the source's value has not changed"


def test_changes_while_no_mirror_runs_are_made_at_its_start(source: Broker, target: Broker) -> None:
    _create(source, "asleep", retention_ms="1000000", segment_bytes="5000000")
    copied(source, target, "asleep")
    _set(target, "asleep", max_message_bytes="5000")
    _set(source, "asleep", "segment_bytes", retention_ms="3000000")
    assert len(copied(source, target, "asleep").lines) == 2
    assert _own(target, "asleep") == {"retention.ms": "3000000", "max.message.bytes": "5000"}
    assert copied(source, target, "asleep").lines == []


def test_a_topic_of_the_target_keeps_what_it_has(source: Broker, target: Broker) -> None:
    """One that the mirror has not created, until something changes on the source."""
    _create(source, "older", retention_ms="1000000", segment_bytes="5000000")
    _create(target, "older", retention_ms="7000")
    copied(source, target, "older")
    assert _own(target, "older") == {"retention.ms": "7000"}
    _set(source, "older", "retention_ms", segment_bytes="6000000")
    copied(source, target, "older")
    assert _own(target, "older") == {"segment.bytes": "6000000"}


def test_the_number_of_replicas_that_must_be_in_sync_is_not_copied(source: Broker, target: Broker) -> None:
    """The target may have fewer replicas; what is set there stays, also what an earlier release has copied."""
    _create(source, "in-sync", retention_ms="1000000", min_insync_replicas="2")
    copied(source, target, "in-sync")
    assert _own(target, "in-sync") == {"retention.ms": "1000000"}
    _set(target, "in-sync", min_insync_replicas="1")
    with ClusterClient(target.bootstrap) as client:
        place = "in-sync", 0
        before = positions(client, "kafkapy-mirror")[place]
        text = f"{before.configs},min.insync.replicas:00000000"
        commit(client, "kafkapy-mirror", {place: before._replace(configs=text)})
        assert copied(source, target, "in-sync").lines == []
        assert _own(target, "in-sync") == {"retention.ms": "1000000", "min.insync.replicas": "1"}


def test_it_can_be_turned_off(source: Broker, target: Broker) -> None:
    _create(source, "off", retention_ms="1000000")
    copied(source, target, "off", sync_configs=False)
    _set(source, "off", retention_ms="2000000")
    copied(source, target, "off", sync_configs=False)
    assert _own(target, "off") == {"retention.ms": "1000000"}
    copied(source, target, "off")
    assert _own(target, "off") == {"retention.ms": "2000000"}


def test_a_refusal_names_the_key_and_the_rest_is_set(source: Broker, target: Broker) -> None:
    _create(source, "strict", segment_bytes="4000000")
    with mirrored(source, target, "strict", once=False, refresh_every_s=0) as running:
        _set(source, "strict", "segment_bytes", retention_ms="2000000")
        with target.faults.error("POLICY_VIOLATION", api="IncrementalAlterConfigs", topic="strict", nth=[1, 2]):
            running.mirror.step()
            running.mirror.step()
        (first, second) = running.lines[1:]
        assert first.startswith("topic strict: the target refuses retention.ms=2000000, which the source has: ")
        assert first.endswith("leave the configuration of topics alone with --no-sync-configs")
        assert "(POLICY_VIOLATION)" in first
        assert second == "topic strict: segment.bytes is deleted on the target, as on the source"
        _set(source, "strict", retention_ms="3000000")
        running.mirror.step()
    assert _own(target, "strict") == {"retention.ms": "3000000"}


def test_keys_that_only_kafkapy_has_are_refused_in_silence(source: Broker, target: Broker) -> None:
    _create(source, "quiet")
    with mirrored(source, target, "quiet", once=False, refresh_every_s=0) as running:
        _set(source, "quiet", kafkapy_flush="ack")
        with target.faults.error("INVALID_CONFIG", api="IncrementalAlterConfigs", topic="quiet") as rule:
            running.mirror.step()
            running.mirror.step()
        assert rule.fired == 1
    assert len(running.lines) == 1


def test_topics_are_looked_at_in_turn(source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "TOPICS_AT_A_TIME", 2)
    names = [f"turn-{at}" for at in range(5)]
    for name in names:
        _create(source, name)
    with mirrored(source, target, "turn-.", once=False, refresh_every_s=0) as running:
        for name in names:
            _set(source, name, retention_ms="2000000")
        for _ in range(4):
            running.mirror.step()
    assert [_own(target, name) for name in names] == [{"retention.ms": "2000000"}] * 5


def test_a_cluster_without_the_request_is_reported(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotServedError("the broker does not serve INCREMENTAL_ALTER_CONFIGS")

    _create(source, "ancient")
    with mirrored(source, target, "ancient", once=False, refresh_every_s=0) as running:
        _set(source, "ancient", retention_ms="2000000")
        monkeypatch.setattr(configs, "alter", refuse)
        running.mirror.step()
        running.mirror.step()
    assert running.lines[1:] == [
        "the broker does not serve INCREMENTAL_ALTER_CONFIGS: the configuration of topics is not kept in step"
    ]


def test_topics_that_the_source_does_not_describe_are_reported(source: Broker, target: Broker) -> None:
    _create(source, "secret")
    with (
        mirrored(source, target, "secret", once=False, refresh_every_s=0) as running,
        source.faults.error("TOPIC_AUTHORIZATION_FAILED", api="DescribeConfigs", topic="secret"),
    ):
        running.mirror.step()
        running.mirror.step()
    (line,) = running.lines[1:]
    assert line.startswith("topic secret: ")
    assert line.endswith("the source does not show its configuration, so it is not kept in step")
