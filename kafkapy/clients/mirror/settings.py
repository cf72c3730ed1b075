"""The configuration of copied topics: a change on the source is made on the target too.

The mirror remembers, for each topic, the keys that it has copied, with a digest of the value: a key whose value on the
source has another digest is set on the target, a key that the source no longer has is deleted there. So what somebody
sets on the target alone stays, also another value of a copied key, until the source's value changes. The digests are
committed with the position of the first partition (``positions.py``), so the mirror also sees changes that were made
while no mirror ran.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from kafkapy.clients import configs
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import NotServedError, RequestFailedError
from kafkapy.clients.mirror.common import OnceReport, passes
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_configs import DescribeConfigsResourceResult

TOPICS_AT_A_TIME: Final = 100
"""Topics that one call looks at: their descriptions take about 200 kB."""
OWN_KEYS: Final = "kafkapy."
"""Keys that only kafkapy knows."""
_OF_THE_TOPIC: Final = 1
"""The source of a configuration value that was set for the topic itself."""
_NOT_COPIED: Final = frozenset(
    {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas", "min.insync.replicas"}
)
"""Keys whose values name brokers of the source, or are about the number of its replicas: the target may have fewer."""

Digests = dict[str, str]
"""Keys with digests of their values."""


class TopicConfigSync:
    """Copies changes of topics' configurations at each ``sync``, unless ``is_on`` is false."""

    def __init__(
        self, source: ClusterClient, target: ClusterClient, report: Callable[[str], None], *, is_on: bool
    ) -> None:  # fmt: skip
        self._source = source
        self._target = target
        self._report = report
        self._is_on = is_on
        self._copied: dict[str, Digests] = {}
        self._refused: dict[tuple[str, str], str] = {}
        self._tell = OnceReport(report)
        self._next = 0

    def of_source(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """The source's own configuration of topics, without what is never copied. Raises RequestFailedError."""
        found = {}
        for name, answer in configs.describe_topics(self._source, topics).items():
            if isinstance(answer, RequestFailedError):
                raise answer
            found[name] = _own(answer)
        return found

    def remember(self, topic: str, own: Mapping[str, str]) -> None:
        """The topic is created on the target with this configuration."""
        self._copied[topic] = {key: _digest(value) for key, value in own.items()}

    def restore(self, topic: str, text: str | None) -> None:
        """Take in what was committed for a topic, unless more is known; None: nothing was."""
        if text is not None and topic not in self._copied:
            pairs = [word.partition(":") for word in text.split(",") if word]
            self._copied[topic] = {key: digest for key, _, digest in pairs if key not in _NOT_COPIED}

    def encoded(self, topic: str) -> str | None:
        """The text to commit for a topic."""
        found = self._copied.get(topic)
        return None if found is None else ",".join(f"{key}:{digest}" for key, digest in sorted(found.items()))

    def sync(self, topics: Iterable[str]) -> list[str]:
        """Make the changes of some of the topics on the target; the next call goes on with others.

        Returns the topics for which ``encoded`` has changed. A topic that the mirror has not seen before, and has not
        created, stays as it is. A value that the target refuses is reported, in a line that names the key, and tried
        again when the source's value changes. Raises NoBrokerError, and RequestFailedError for errors that pass.
        """
        if not self._is_on:
            return []
        names = sorted(topics)
        self._next = self._next if self._next < len(names) else 0
        part = names[self._next : self._next + TOPICS_AT_A_TIME]
        self._next += len(part)
        before = {name: self.encoded(name) for name in part}
        try:
            for name, answer in configs.describe_topics(self._source, part).items():
                if isinstance(answer, RequestFailedError):
                    self._tell(f"{answer}; the source does not show its configuration, so it is not kept in step")
                else:
                    self._sync_topic(name, _own(answer))
        except NotServedError as error:
            self._is_on = False
            self._report(f"{error}: the configuration of topics is not kept in step")
        return [name for name in part if self.encoded(name) != before[name]]

    def _sync_topic(self, topic: str, own: Mapping[str, str]) -> None:
        if topic not in self._copied:
            self.remember(topic, own)
            return
        copied = self._copied[topic]
        changed: dict[str, str | None] = {
            key: value
            for key, value in own.items()
            if copied.get(key) != _digest(value) and self._refused.get((topic, key)) != value
        }
        changed.update((key, None) for key in copied if key not in own)
        if not changed:
            return
        try:
            self._alter(topic, changed)
        except RequestFailedError as error:
            if passes(error):
                raise
            for key, value in changed.items() if len(changed) > 1 else ():
                self._alter_alone(topic, key, value)
            if len(changed) == 1:
                self._refuse(topic, *next(iter(changed.items())), error)

    def _alter_alone(self, topic: str, key: str, value: str | None) -> None:
        try:
            self._alter(topic, {key: value})
        except RequestFailedError as error:
            if passes(error):
                raise
            self._refuse(topic, key, value, error)

    def _alter(self, topic: str, changed: Mapping[str, str | None]) -> None:
        values = {key: value for key, value in changed.items() if value is not None}
        deleted = [key for key, value in changed.items() if value is None]
        configs.alter(self._target, "topic", topic, values, deleted)
        copied = self._copied[topic]
        for key, value in values.items():
            copied[key] = _digest(value)
            self._report(f"topic {topic}: {key}={value} is set on the target, as on the source")
        for key in deleted:
            del copied[key]
            self._report(f"topic {topic}: {key} is deleted on the target, as on the source")

    def _refuse(self, topic: str, key: str, value: str | None, error: RequestFailedError) -> None:
        if value is None:
            del self._copied[topic][key]
        else:
            self._refused[topic, key] = value
        if error.code == ErrorCode.INVALID_CONFIG and key.startswith(OWN_KEYS):
            return
        what = f"{key}={value}" if value is not None else f"the deletion of {key}"
        self._report(
            f"topic {topic}: the target refuses {what}, which the source has: {error}. Give {key} a value there that"
            " both take, or leave the configuration of topics alone with --no-sync-configs"
        )


def _own(described: Sequence[DescribeConfigsResourceResult]) -> dict[str, str]:
    return {
        each.name: each.value or ""
        for each in described
        if each.config_source == _OF_THE_TOPIC and each.name not in _NOT_COPIED
    }


def _digest(value: str) -> str:
    return blake2b(value.encode(), digest_size=4).hexdigest()
