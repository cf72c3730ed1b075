"""The producer of Kafka's original design: finds brokers through ZooKeeper, and sends at once or in the background.

With ``producer.type=sync`` ``send`` returns when the messages are sent. With ``async`` it puts them into a queue, from
which a thread takes batches of ``batch.num.messages``, or what has come within ``queue.buffering.max.ms``, and gives
them to the event handler. A ``CallbackHandler`` sees, and may change, the messages at five places on this way.

>>> parts = ProducerParts(encoder=string_encoder)
>>> with OriginalProducer({"zookeeper.connect": "127.0.0.1:2181"}, parts) as producer:
...     producer.send(KeyedMessage("flights", "EWR-IAH", key=b"UA1545"))
"""

import logging
import queue
import random
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from kafkapy.clients.errors import ClientError
from kafkapy.clients.original.discovery import BrokerDiscovery, ListDiscovery, ZooKeeperDiscovery
from kafkapy.clients.original.event_handler import DefaultEventHandler, EventHandler
from kafkapy.clients.original.keyed_messages import (
    Encoder,
    KeyedMessage,
    Partitioner,
    default_encoder,
    default_partitioner,
)
from kafkapy.clients.original.registry import KazooRegistry, Registry
from kafkapy.clients.original.settings import OriginalProducerSettings, SettingsError
from kafkapy.clock import Clock, SystemClock

LOOK_EVERY_S: Final = 0.5
"""How often a ``send`` that waits for space in the queue checks whether the sending thread still runs.

Also the shortest wait of that thread for the first message of a batch.
"""
_SYSTEM_CLOCK: Final = SystemClock()

logger = logging.getLogger(__name__)


class QueueFullError(ClientError):
    """The queue of an asynchronous producer had no space within ``queue.enqueue.timeout.ms``."""


class ProducerClosedError(ClientError):
    """The producer is closed, or its sending thread has ended with an error, which is the cause of this one."""


class CallbackHandler:
    """Hooks of an asynchronous producer (``kafka.producer.async.CallbackHandler``); these do nothing.

    The first two are called by the threads that send, the others by the sending thread. An exception in one of those
    ends that thread: later calls of ``send``, and the first of ``close``, raise ProducerClosedError.
    """

    def before_enqueue(self, message: KeyedMessage) -> KeyedMessage:
        """Return the message to put into the queue."""
        return message

    def after_enqueue(self, message: KeyedMessage, *, added: bool) -> None:
        """The message is in the queue, or was refused."""

    def after_dequeuing(self, message: KeyedMessage | None) -> Sequence[KeyedMessage]:
        """A message was taken from the queue, None: none came in time; return what to add to the batch."""
        return () if message is None else (message,)

    def before_sending(self, messages: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
        """Return what to send of a batch."""
        return messages

    def last_batch_before_close(self) -> Sequence[KeyedMessage]:
        """Return what to send after everything in the queue, at ``close``."""
        return ()


class ProducerParts(NamedTuple):
    """The parts of a producer that its user may bring; an ``event_handler`` has its own encoders and partitioner."""

    encoder: Encoder = default_encoder
    key_encoder: Encoder = default_encoder
    partitioner: Partitioner = default_partitioner
    event_handler: EventHandler | None = None
    callback_handler: CallbackHandler | None = None


_DEFAULT_PARTS: Final = ProducerParts()


class OriginalProducer:
    """``properties`` are settings of Kafka 0.8.2's producer by name, or those of 0.7 (``settings.py``).

    ``registry`` is used, and closed at the end, in place of a connection to ``zookeeper.connect``; with neither,
    ``metadata.broker.list`` names brokers. All methods may be called by several threads. Raises SettingsError and
    RegistryError.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        parts: ProducerParts = _DEFAULT_PARTS,
        *,
        registry: Registry | None = None,
        clock: Clock = _SYSTEM_CLOCK,
        rng: random.Random | None = None,
    ) -> None:
        self._settings = settings = OriginalProducerSettings.from_properties(properties)
        self._clock = clock
        parts = _with_named_parts(parts, settings)
        handler = parts.event_handler
        if handler is None:
            rng = random.SystemRandom() if rng is None else rng
            encoders = (parts.key_encoder, parts.encoder)
            discovery = _discovery(settings, registry)
            handler = DefaultEventHandler(settings, discovery, encoders, parts.partitioner, clock, rng)
        self._handler = handler
        self._callbacks = parts.callback_handler or CallbackHandler()
        self._turn = threading.Lock()
        self._is_closed = False
        self._failure: BaseException | None = None
        self._queue: queue.Queue[KeyedMessage | None] = queue.Queue(settings.queue_buffering_max_messages)
        self._sender: threading.Thread | None = None
        if settings.is_async:
            self._sender = threading.Thread(target=self._run, name="kafkapy-producer", daemon=True)
            self._sender.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def send(self, *messages: KeyedMessage) -> None:
        """Send, or put into the queue.

        Synchronous: raises FailedToSendError. Asynchronous: raises QueueFullError, after it has put the messages in
        front into the queue; messages that can't be sent later are logged and dropped. Raises ProducerClosedError.
        """
        if self._sender is None:
            with self._turn:
                self._check_open()
                self._handler.handle(messages)
            return
        for message in messages:
            changed = self._callbacks.before_enqueue(message)
            with self._turn:
                self._check_open()
                added = self._enqueue(changed)
            self._callbacks.after_enqueue(changed, added=added)
            if not added:
                raise QueueFullError(
                    f"the queue has {self._settings.queue_buffering_max_messages} messages:"
                    " increase queue.buffering.max.messages or queue.enqueue.timeout.ms"
                )

    def close(self) -> None:
        """Send what is in the queue and the callback handler's last batch, then close; may be called repeatedly.

        Raises ProducerClosedError if the sending thread has ended with an error: messages of the queue are not sent.
        """
        with self._turn:
            if self._is_closed:
                return
            self._is_closed = True
        if self._sender is not None:
            while self._sender.is_alive() and not self._put(None, LOOK_EVERY_S):
                logger.info("The queue is full: it is sent before the producer is closed")
            self._sender.join()
        self._handler.close()
        self._check_sender()

    def _check_sender(self) -> None:
        if self._failure is not None:
            raise ProducerClosedError("the sending thread has ended with an error") from self._failure

    def _check_open(self) -> None:
        self._check_sender()
        if self._is_closed:
            raise ProducerClosedError("the producer is closed")

    def _enqueue(self, message: KeyedMessage) -> bool:
        """Whether there was space within ``queue.enqueue.timeout.ms`` (-1: wait for it)."""
        timeout_ms = self._settings.queue_enqueue_timeout_ms
        if timeout_ms >= 0:
            return self._put(message, timeout_ms / 1000)
        while not self._put(message, LOOK_EVERY_S):
            self._check_open()
        return True

    def _put(self, item: KeyedMessage | None, timeout_s: float) -> bool:
        try:
            self._queue.put(item, block=timeout_s > 0, timeout=timeout_s or None)
        except queue.Full:
            return False
        return True

    # the sending thread

    def _run(self) -> None:
        try:
            while self._send_batch():
                pass
            self._hand_over(self._callbacks.last_batch_before_close())
        except BaseException as error:
            self._failure = error
            raise

    def _send_batch(self) -> bool:
        """Gather a batch and send it; false after the end of the queue.

        A batch waits for ``queue.buffering.max.ms`` after its first message.
        """
        batch: list[KeyedMessage] = []
        wait_s = self._settings.queue_buffering_max_ms / 1000
        end_s = self._clock.monotonic_s() + max(wait_s, LOOK_EVERY_S)
        goes_on, is_empty = True, True
        while goes_on and len(batch) < self._settings.batch_num_messages:
            try:
                message = self._queue.get(timeout=max(0.0, end_s - self._clock.monotonic_s()))
                if is_empty:
                    end_s, is_empty = self._clock.monotonic_s() + wait_s, False
            except queue.Empty:
                batch += self._callbacks.after_dequeuing(None)
                break
            if message is None:
                goes_on = False
            else:
                batch += self._callbacks.after_dequeuing(message)
        self._hand_over(batch)
        return goes_on

    def _hand_over(self, messages: Sequence[KeyedMessage]) -> None:
        messages = self._callbacks.before_sending(messages) if messages else messages
        if messages:
            try:
                self._handler.handle(messages)
            except ClientError as error:
                logger.error("A batch of %d messages is dropped: %s", len(messages), error)


def _with_named_parts(parts: ProducerParts, settings: OriginalProducerSettings) -> ProducerParts:
    """The parts, with those that settings name; raises SettingsError if a part is given in both ways."""
    named = {
        "event_handler": ("event.handler", settings.event_handler),
        "callback_handler": ("callback.handler", settings.callback_handler),
        "partitioner": ("partitioner.class", settings.partitioner),
    }
    used = {field: part for field, (_, part) in named.items() if part is not None}
    for field in used:
        if getattr(parts, field) is not getattr(_DEFAULT_PARTS, field):
            raise SettingsError(f"{named[field][0]} and the part {field} are the same: give one of them")
    return parts._replace(**used)


def _discovery(settings: OriginalProducerSettings, registry: Registry | None) -> BrokerDiscovery:
    timeout_s = settings.request_timeout_ms / 1000 + 1
    if registry is not None:
        return ZooKeeperDiscovery(registry, timeout_s)
    if settings.metadata_broker_list:
        return ListDiscovery(settings.metadata_broker_list, timeout_s)
    return ZooKeeperDiscovery(KazooRegistry(settings.zookeeper), timeout_s)
