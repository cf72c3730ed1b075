"""A client of a whole cluster: bootstrap addresses, brokers by id, the controller, coordinators, leaders."""

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self, TypeVar

from kafkapy.clients.connection import CONNECT_TIMEOUT_S, Connection, R
from kafkapy.clients.errors import ClientError, NoBrokerError, RequestFailedError, check
from kafkapy.protocol.client_core import Request
from kafkapy.protocol.constants import TRANSACTIONAL_ID_KEY
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkapy.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafkapy.security.settings import NO_SECURITY, ClientSecurity

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
HIGHEST_PORT: Final = 65_535
SILENT_S: Final = 3.0
"""How long one of several bootstrap addresses may be silent before the next one is tried."""
RETRY_PAUSE_S: Final = 0.05
RETRIES: Final = 200
_SOON: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
    }
)
_NOT_YET_MADE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
T = TypeVar("T")


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """``host:port,host:port``; raises ClientError for another form or port. IPv6 addresses are in brackets."""
    addresses = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = item.rpartition(":")
        if not host or not port.isdecimal():
            raise ClientError(f"{item!r} is no address of a broker: write host:port")
        if not 0 < int(port) <= HIGHEST_PORT:
            raise ClientError(f"{item!r} is no address of a broker: ports are numbers from 1 to {HIGHEST_PORT}")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ClientError("no address of a broker is given: write host:port")
    return addresses


class ClusterClient:
    """Blocking requests to a cluster; connections are opened when they are first needed."""

    def __init__(
        self, bootstrap: str = DEFAULT_BOOTSTRAP, timeout_s: float = 10.0, security: ClientSecurity = NO_SECURITY
    ) -> None:
        self._bootstrap_text = bootstrap
        self._bootstrap = parse_bootstrap(bootstrap)
        self._timeout_s = timeout_s
        self._security = security
        self._any: Connection | None = None
        self._nodes: dict[int, Connection] = {}
        self._addresses: dict[int, tuple[str, int]] = {}

    def with_timeout(self, timeout_s: float) -> "ClusterClient":
        """Another client of the same cluster, which waits so long for each response.

        It knows the brokers that this one knows, and asks first the one that has answered this one.
        """
        other = ClusterClient(self._bootstrap_text, timeout_s, self._security)
        other._addresses = dict(self._addresses)
        if self._any is not None:
            other._bootstrap.insert(0, self._any.host_and_port)
        return other

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; the next request opens new ones, to any broker that answers."""
        for connection in (self._any, *self._nodes.values()):
            if connection is not None:
                connection.close()
        self._any, self._nodes = None, {}

    def call(self, request: Request, response_class: type[R]) -> R:
        """Send the request to any broker; return the response."""
        return self.any_broker().call(request, response_class)

    def node(self, node_id: int) -> Connection:
        """The connection to one broker."""
        if node_id not in self._addresses:
            self.metadata([])
        if node_id not in self._addresses:
            raise NoBrokerError(f"broker {node_id} is not in the cluster")
        connection = self._nodes.get(node_id)
        if connection is None:
            connection = self._nodes[node_id] = self._connect(*self._addresses[node_id])
        return connection

    def node_ids(self) -> list[int]:
        """The ids of all brokers that are alive."""
        self.metadata([])
        return sorted(self._addresses)

    def controller(self) -> Connection:
        """The connection to the controller. Raises RequestFailedError while there is none."""
        controller_id = self.metadata([]).controller_id
        if controller_id < 0:
            raise RequestFailedError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
        return self.node(controller_id)

    def coordinator(self, group_id: str) -> Connection:
        """The connection to a group's coordinator; waits while there is none yet."""
        return self._coordinator(FindCoordinatorRequest(group_id), f"group {group_id}")

    def transaction_coordinator(self, transactional_id: str) -> Connection:
        """The connection to a transactional id's coordinator; waits while there is none yet."""
        request = FindCoordinatorRequest(transactional_id, TRANSACTIONAL_ID_KEY)
        return self._coordinator(request, f"transactional id {transactional_id}")

    def _coordinator(self, request: FindCoordinatorRequest, what: str) -> Connection:
        def find() -> int:
            answer = self.call(request, FindCoordinatorResponse)
            check(answer.error_code, answer.error_message, what=what)
            self._addresses[answer.node_id] = (answer.host, answer.port)
            return answer.node_id

        return self.node(self.retrying(find))

    def metadata(self, topics: Iterable[str] | None = None, *, create: bool = False) -> MetadataResponse:
        """The brokers and these topics (None: all); with ``create`` missing topics may be created."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer = self.call(MetadataRequest(asked, create), MetadataResponse)
        self._addresses.update({broker.node_id: (broker.host, broker.port) for broker in answer.brokers})
        return answer

    def topic(self, name: str, *, create: bool = False, led: bool = True) -> MetadataResponseTopic:
        """One topic; with ``led`` waits until all of its partitions have leaders. Raises RequestFailedError.

        With ``create`` the request is repeated (10 s) while the topic is unknown: brokers without ZooKeeper answer so
        until they have created it.
        """

        def find() -> MetadataResponseTopic:
            (topic,) = self.metadata([name], create=create).topics
            check(topic.error_code, what=f"topic {name}")
            for partition in topic.partitions if led else ():
                check(partition.error_code, what=f"partition {name}-{partition.partition_index}")
            topic.partitions.sort(key=lambda partition: partition.partition_index)
            return topic

        return self.retrying(find, also=_NOT_YET_MADE if create else frozenset())

    def retrying(self, attempt: Callable[[], T], *, also: frozenset[int] = frozenset()) -> T:
        """The result of ``attempt``, which is retried (10 s) after temporary errors and those in ``also``."""
        for _ in range(RETRIES):
            try:
                return attempt()
            except RequestFailedError as error:
                if error.code not in _SOON | also:
                    raise
            threading.Event().wait(RETRY_PAUSE_S)
        return attempt()

    def any_broker(self) -> Connection:
        """The connection to any broker that answers, the same for all requests until ``close``."""
        problems = []
        addresses = list(dict.fromkeys([*self._bootstrap, *self._addresses.values()]))
        for host, port in addresses if self._any is None else ():
            try:
                self._any = self._opened(host, port, is_last=(host, port) == addresses[-1])
                break
            except NoBrokerError as error:
                problems.append(str(error))
        if self._any is None:
            raise NoBrokerError("; ".join(problems))
        return self._any

    def _connect(self, host: str, port: int, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> Connection:
        return Connection(host, port, self._timeout_s, connect_timeout_s=connect_timeout_s, security=self._security)

    def _opened(self, host: str, port: int, *, is_last: bool) -> Connection:
        """A connection to a broker that answers; where there are other addresses this must not take long."""
        timeout_s = CONNECT_TIMEOUT_S if is_last else SILENT_S
        connection = self._connect(host, port, timeout_s)
        try:
            connection.open(timeout_s)
        except ClientError:
            connection.close()
            raise
        return connection
