"""Answers with a rule's error code in the field that each API has for it, in every version that this broker serves.

If a response has a code for each topic or partition, those that a rule selects are removed from the request, the rest
is handled as usual, and the answers are merged: a record for another partition is still written. A read request is
handled as a whole, and its answer is changed. Kafka's rules apply: AddPartitionsToTxn adds no partition when one is
refused, a Produce with acks=0 is answered by closing the connection.
"""

import copy
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NoReturn

from kafkapy.network.errors import UnansweredFailureError
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.places import PLACES, Place, Role
from kafkapy.protocol.writer import Writer
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.message_places import NamedResource, Select, extended, names_in
from kafkapy.server.dispatch.result import Handle, Result
from kafkapy.testing.faults.rules import Rule
from kafkapy.types import TopicPartition

SESSION_ERRORS: Final = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
"""Errors of a whole fetch."""
FIRST_FETCH_WITH_SESSIONS: Final = 7
FIRST_OFFSET_FETCH_WITH_GROUP_ERROR: Final = 2
FIRST_OFFSET_FETCH_OF_SEVERAL: Final = 8
FIRST_FIND_OF_SEVERAL: Final = 4
FIRST_ADD_OF_SEVERAL: Final = 4
_NOWHERE: Final = NamedResource(None, None)
_FIELDS_WITH_ERROR: Final[dict[str, dict[str, Any]]] = {
    "PartitionProduceResponse": {"base_offset": -1},
    "PartitionData": {"high_watermark": -1, "aborted_transactions": None, "records": b""},
    "OffsetFetchResponsePartition": {"committed_offset": -1},
    "DeleteRecordsPartitionResult": {"low_watermark": -1},
}
"""By class of a response's item: the fields that Kafka sets to other values than the default beside an error."""
_TOP_LEVEL_FIELDS: Final[dict[int, dict[str, Any]]] = {
    ApiKey.FIND_COORDINATOR: {"node_id": -1, "port": -1},
    ApiKey.INIT_PRODUCER_ID: {"producer_epoch": -1},
}


class AtVersion(Message):
    """A response that is written in a given version instead of the request's."""

    __slots__ = ("response", "version")

    def __init__(self, response: Message, version: int) -> None:
        self.response = response
        self.version = version

    def write(self, writer: Writer, version: int) -> None:  # noqa: ARG002  # replaced by ``self.version``
        """See ``Message.write``."""
        self.response.write(writer, self.version)


_RESULTS: Final[dict[int, str]] = {
    ApiKey.DESCRIBE_LOG_DIRS: "results",
    ApiKey.CREATE_ACLS: "results",
    ApiKey.DELETE_ACLS: "filter_results",
    ApiKey.ALTER_CLIENT_QUOTAS: "entries",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "results",
    ApiKey.DESCRIBE_TRANSACTIONS: "transaction_states",
}
"""By API: the response's list whose items have an error code, though they name no topic, partition or group."""
_WITHOUT_PLACES: Final = {ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.ALTER_REPLICA_LOG_DIRS, *_RESULTS}
"""APIs whose errors have a place of their own here."""


class ErrorAnswer:
    """The answer of one rule to one request."""

    def __init__(self, context: RequestContext, request: Any, rule: Rule) -> None:
        assert rule.error is not None, "only rules of errors answer"
        self._context = context
        self._request = request
        self._code = rule.error
        self._select: Select = rule.selects
        self._key = context.header.api_key
        self._module = import_module(response_class(self._key).__module__)

    async def instead(self, handle: Handle) -> Message | None:
        """Answer the request; its selected parts are not handled."""
        if _is_for_all(self._context, self._code, self._select):
            return self._for_all()
        if self._key == ApiKey.FETCH:
            self._request.max_wait_ms = self._request.min_bytes = 0
        if self._key == ApiKey.METADATA:
            self._request.allow_auto_topic_creation = False
        if self._key in (ApiKey.FETCH, ApiKey.METADATA, ApiKey.API_VERSIONS, *_RESULTS):
            return self.replacing(await result_of(handle(self._context, self._request)))
        if self._key == ApiKey.OFFSET_FETCH and self._request.groups:
            return self.replacing(await result_of(handle(self._context, self._request)))
        if self._key == ApiKey.ADD_PARTITIONS_TO_TXN:
            return self._nothing_attempted()
        if self._key == ApiKey.ALTER_REPLICA_LOG_DIRS:
            return await self._without_moves(handle)
        refused = self._take_out(self._request, PLACES[self._key], _NOWHERE)
        place = PLACES[self._key][0]
        if self._key == ApiKey.PRODUCE and self._request.acks == 0:
            await self._unanswered(handle)
        if getattr(self._request, place.request) == []:
            response: Any = response_class(self._key)()
        else:
            response = await result_of(handle(self._context, self._request))
        _put_together(getattr(response, place.response), refused, PLACES[self._key])
        return response  # type: ignore[no-any-return]  # of the API's response class

    async def _unanswered(self, handle: Handle) -> NoReturn:
        if self._request.topic_data:
            await result_of(handle(self._context, self._request))
        raise UnansweredFailureError(f"a fault rule answers a produce request with acks=0: {self._code.name}")

    def replacing(self, response: Any) -> Message | None:
        """Change the answer to a request that was handled."""
        if response is None:
            raise UnansweredFailureError(f"a fault rule answers a produce request with acks=0: {self._code.name}")
        if _is_for_all(self._context, self._code, self._select):
            return self._for_all()
        if self._key == ApiKey.API_VERSIONS:
            response.error_code = self._code
            return AtVersion(response, 0) if self._code == ErrorCode.UNSUPPORTED_VERSION else response
        if self._key in _RESULTS:
            self._replace_results(response)
        elif self._key == ApiKey.METADATA:
            self._replace_metadata(response)
        elif self._key == ApiKey.ALTER_REPLICA_LOG_DIRS:
            self._replace_moves(response)
        elif self._key == ApiKey.OFFSET_FETCH and self._request.groups:
            self._replace_offsets(response)
        else:
            self._replace(response, PLACES[self._key], _NOWHERE)
            if self._key == ApiKey.FETCH:
                self._complete_fetch(response)
        return response  # type: ignore[no-any-return]  # of the API's response class

    # one code for all

    def _for_all(self) -> Message:
        response: Any = response_class(self._key)()
        if self._key == ApiKey.FIND_COORDINATOR and self._context.header.api_version >= FIRST_FIND_OF_SEVERAL:
            keys = self._request.coordinator_keys
            response.coordinators = [self._module.Coordinator(key, -1, "", -1, self._code) for key in keys]
            return response  # type: ignore[no-any-return]  # of the API's response class
        if self._key == ApiKey.OFFSET_FETCH and self._context.header.api_version >= FIRST_OFFSET_FETCH_OF_SEVERAL:
            groups = [group.group_id for group in self._request.groups]
            response.groups = [self._module.OffsetFetchResponseGroup(group, [], self._code) for group in groups]
            return response  # type: ignore[no-any-return]  # of the API's response class
        response.error_code = self._code
        for name, value in _TOP_LEVEL_FIELDS.get(self._key, {}).items():
            setattr(response, name, value)
        if self._key == ApiKey.JOIN_GROUP:
            response.member_id = self._request.member_id
        if self._key == ApiKey.FIND_COORDINATOR and self._context.header.api_version >= 1:
            response.error_message = self._code.name
        return response  # type: ignore[no-any-return]  # of the API's response class

    # a code for each

    def _blank(self, place: Place, item: Any, code: ErrorCode | None = None) -> Any:
        """A response's item for a request's ``item``, with the error code if ``code`` is given."""
        answer = getattr(self._module, place.item)()
        setattr(answer, place.answered, place.name_of(item))
        if hasattr(item, "topic_id"):
            answer.topic_id = item.topic_id
        if place.role is Role.RESOURCE:
            answer.resource_type = item.resource_type
        if code is not None:
            for name, value in _FIELDS_WITH_ERROR.get(place.item, {}).items():
                setattr(answer, name, value)
            setattr(answer, place.error, code)
        return answer

    def _take_out(self, container: Any, places: tuple[Place, ...], named: NamedResource) -> list[Any]:
        """Remove the selected items from a request's list; return the answers for them. Null names no item."""
        place, *inner = places
        if getattr(container, place.request) is None:
            return []
        kept, answers = [], []
        for item in getattr(container, place.request):
            found = extended(named, place, item)
            if not inner:
                if self._select(found):
                    answers.append(self._blank(place, item, self._code))
                else:
                    kept.append(item)
                continue
            rest = copy.copy(item)
            refused = self._take_out(rest, tuple(inner), found)
            if refused:
                answers.append(self._blank(place, item))
                getattr(answers[-1], inner[0].response).extend(refused)
            if not refused or getattr(rest, inner[0].request):
                kept.append(rest)
        setattr(container, place.request, kept)
        return answers

    def _nothing_attempted(self) -> Message:
        """Kafka's answer when not every partition can be added: the others have OPERATION_NOT_ATTEMPTED."""
        rest = copy.copy(self._request)
        places = PLACES[self._key]
        response: Any = response_class(self._key)()
        answers = getattr(response, places[0].response)
        answers += self._take_out(rest, places, _NOWHERE)
        self._code, self._select = ErrorCode.OPERATION_NOT_ATTEMPTED, lambda _: True
        _put_together(answers, self._take_out(rest, places, _NOWHERE), places)
        return response  # type: ignore[no-any-return]  # of the API's response class

    def _replace(self, container: Any, places: tuple[Place, ...], named: NamedResource) -> None:
        """Replace a response's selected items by blank ones with the code."""
        place, *inner = places
        items = getattr(container, place.response)
        for at, item in enumerate(items):
            answered = place._replace(named=place.answered)
            found = extended(named, answered, item)
            if inner:
                self._replace(item, tuple(inner), found)
            elif self._select(found):
                _release(item)
                items[at] = self._blank(answered, item, self._code)

    # moves between data directories, whose topics are in a list of directories that the response has not

    async def _without_moves(self, handle: Handle) -> Message:
        """Answer the request; the selected partitions are not moved."""
        refused: dict[str, dict[int, None]] = {}
        for directory in self._request.dirs:
            for topic in directory.topics:
                kept = []
                for index in topic.partitions:
                    if self._select(NamedResource(topic.name, index)):
                        refused.setdefault(topic.name, {})[index] = None
                    else:
                        kept.append(index)
                topic.partitions = kept
        response: Any = await result_of(handle(self._context, self._request))
        from kafkapy.protocol.messages.alter_replica_log_dirs import (  # rarely needed
            AlterReplicaLogDirPartitionResult,
            AlterReplicaLogDirTopicResult,
        )

        for name, indexes in refused.items():
            rows = [AlterReplicaLogDirPartitionResult(index, self._code) for index in indexes]
            response.results.append(AlterReplicaLogDirTopicResult(name, rows))
        return response  # type: ignore[no-any-return]  # of the API's response class

    def _replace_moves(self, response: Any) -> None:
        for topic in response.results:
            for row in topic.partitions:
                if self._select(NamedResource(topic.topic_name, row.partition_index)):
                    row.error_code = self._code

    # the reads

    def _replace_results(self, response: Any) -> None:
        for result in getattr(response, _RESULTS[self._key]):
            result.error_code = self._code
            if self._key == ApiKey.DESCRIBE_LOG_DIRS:
                result.topics = []

    def _replace_offsets(self, response: Any) -> None:
        for topic in (each for group in response.groups for each in group.topics):
            for row in topic.partitions:
                if self._select(NamedResource(topic.name, row.partition_index)):
                    row.error_code, row.committed_offset = self._code, -1

    def _replace_metadata(self, response: Any) -> None:
        for topic in response.topics:
            if self._select(NamedResource(topic.name, None)):
                topic.error_code, topic.partitions = self._code, []
            for partition in topic.partitions:
                if self._select(NamedResource(topic.name, partition.partition_index)):
                    partition.error_code, partition.leader_id = self._code, -1

    def _complete_fetch(self, response: Any) -> None:
        """Add selected partitions that an incremental response leaves out, and have the next response carry them."""
        answered = {NamedResource(topic.topic, each.partition_index) for topic in response.responses
                    for each in topic.partitions}  # fmt: skip
        topics, partitions = PLACES[self._key]
        session = self._context.services.fetch_sessions.get(response.session_id)
        image = self._context.services.metadata.image
        for named in names_in(self._context, self._request):
            if not self._select(named) or response.error_code:
                continue
            if named not in answered:
                data = self._blank(partitions._replace(named=""), named.partition, self._code)
                topic = self._blank(topics._replace(named=""), named.topic)
                topic.topic_id = image.topic_id(named.topic or "")
                topic.partitions.append(data)
                _put_together(response.responses, [topic], (topics, partitions))
            if named.topic is None or named.partition is None or session is None:
                continue  # a fetch names both
            key = session.key_of(TopicPartition(named.topic, named.partition), image.topic_id(named.topic))
            known = session.partitions.get(key)
            if known is not None:
                known.high_watermark = -1
                session.is_due(key)


def refusing(rule: Rule, handle: Handle) -> Handle:
    """``handle``, except that the parts which the rule selects are answered with its error."""
    return lambda context, request: ErrorAnswer(context, request, rule).instead(handle)


def has_place(context: RequestContext, request: Any, rule: Rule, names: list[NamedResource]) -> bool:
    """Whether the answer to a request that names ``names`` has a place for the rule's error."""
    if request is None or rule.error is None:
        return False  # ApiVersions in an unknown version has its error
    key = context.header.api_key
    if _is_for_all(context, rule.error, rule.selects) or key in (ApiKey.API_VERSIONS, *_RESULTS):
        return True
    if key == ApiKey.FETCH and rule.error in SESSION_ERRORS:
        return False
    return any(rule.selects(named) for named in names)


def _is_for_all(context: RequestContext, code: ErrorCode, select: Select) -> bool:
    """Whether the response has one code for the whole request."""
    key, version = context.header.api_key, context.header.api_version
    if key == ApiKey.FETCH:
        return code in SESSION_ERRORS and version >= FIRST_FETCH_WITH_SESSIONS
    if key == ApiKey.OFFSET_FETCH:
        return version >= FIRST_OFFSET_FETCH_WITH_GROUP_ERROR and select(_NOWHERE)
    if key == ApiKey.OFFSET_DELETE:
        return select(_NOWHERE)
    if key == ApiKey.ADD_PARTITIONS_TO_TXN and version >= FIRST_ADD_OF_SEVERAL:
        return True
    return key not in PLACES and key not in _WITHOUT_PLACES


async def result_of(result: Result) -> Any:
    """The response of a handler's result."""
    return result if result is None or isinstance(result, Message) else await result


def _put_together(answers: list[Any], more: list[Any], places: tuple[Place, ...]) -> None:
    """Add ``more`` to a response's list; answers for the same topic are merged into one item."""
    place, *inner = places
    for item in more:
        name = getattr(item, place.answered)
        known = next((each for each in answers if inner and getattr(each, place.answered) == name), None)
        if known is None:
            answers.append(item)
        else:
            _put_together(getattr(known, inner[0].response), getattr(item, inner[0].response), tuple(inner))


def _release(item: Any) -> None:
    """Release the descriptor of records that are not sent."""
    release: Callable[[], None] | None = getattr(getattr(item, "records", None), "release", None)
    if release is not None:
        release()


def release_bodies(response: Any) -> None:
    """Release the descriptors of an answer that is not sent."""
    for topic in getattr(response, "responses", ()):
        for item in getattr(topic, "partitions", ()):
            _release(item)
