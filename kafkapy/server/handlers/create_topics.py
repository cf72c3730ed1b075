"""CreateTopics: creates topics by their numbers of partitions and replicas, or by an assignment; or only checks them.

Versions 0-7 (answers carry numbers and configuration from 5 on, topic ids from 7 on; none where the topic is only
checked). Only the controller serves it.
Not done: creation policies.
Errors: REQUEST_TIMED_OUT 7, INVALID_TOPIC_EXCEPTION 17 (name), TOPIC_ALREADY_EXISTS 36, INVALID_PARTITIONS 37,
INVALID_REPLICATION_FACTOR 38, INVALID_REPLICA_ASSIGNMENT 39, INVALID_CONFIG 40, NOT_CONTROLLER 41, INVALID_REQUEST 42
(contradictory), POLICY_VIOLATION 44 (more replicas than ``kafkapy.max.replicas``), KAFKA_STORAGE_ERROR 56 (the disk of
the metadata is full), THROTTLING_QUOTA_EXCEEDED 89 (from version 6 on).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.config.describe import describe_topic
from kafkapy.controller.topics import NewTopic, TopicResult
from kafkapy.java_hashing import in_java_order
from kafkapy.metadata.errors import PolicyViolationError
from kafkapy.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkapy.turns import OneByOne

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.server.dispatch.context import RequestContext


FIRST_STRICT_VERSION: Final = 6
"""From this version on clients know THROTTLING_QUOTA_EXCEEDED."""


async def handle(context: "RequestContext", request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Pass the topics to ``TopicAdmin`` and translate its results."""
    services = context.services
    topics = [await _new_topic(topic) async for topic in OneByOne(request.topics)]
    budget = context.budget(FIRST_STRICT_VERSION)
    results = await services.topic_admin.create_topics(
        topics, request.timeout_ms, validate_only=request.validate_only, budget=budget
    )
    answers = {}
    async for result in OneByOne(results):
        answers[result.name] = _answer(result, services.config, context.header.api_version)
        if result.error is not None:
            context.log_refusal(f"the creation of topic {result.name!r}", result.error)
            if isinstance(result.error, PolicyViolationError):
                services.metrics.topics_refused_by_replica_limit += 1
    return CreateTopicsResponse(budget.throttle_ms, topics=[answers[topic.name] for topic in topics])


async def _new_topic(topic: CreatableTopic) -> NewTopic:
    assignments = {}
    async for assigned in OneByOne(topic.assignments):
        assignments[assigned.partition_index] = assigned.broker_ids
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignments,
        [(config.name, config.value) for config in topic.configs],
    )


def _configs(config: "BrokerConfig", overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """Describe the configuration of a new topic; topics with the same overrides share a description."""
    described = describe_topic(config, overrides)
    found: list[CreatableTopicConfigs] | None = described.derived.get(CreatableTopicConfigs)
    if found is None:
        entries = {entry.name: entry for entry in described}
        found = described.derived[CreatableTopicConfigs] = [
            CreatableTopicConfigs(
                name=name,
                value=entries[name].value,
                read_only=entries[name].read_only,
                config_source=entries[name].source,
                is_sensitive=entries[name].sensitive,
            )
            for name in in_java_order(entries)
        ]
    return found


def _answer(result: TopicResult, config: "BrokerConfig", version: int) -> CreatableTopicResult:
    if result.error is not None:
        code, text = result.error.error_code, str(result.error) or None
        return CreatableTopicResult(name=result.name, error_code=code, error_message=text, configs=[])
    if version < 5:
        return CreatableTopicResult(name=result.name, error_message=None)
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=result.partitions,
        replication_factor=result.replication_factor,
        configs=_configs(config, result.configs),
    )
