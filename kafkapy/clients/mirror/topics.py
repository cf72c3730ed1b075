"""Which topics a mirror copies, and that the target has them with the same partitions and configuration."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kafkapy.clients import topics as client_topics
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import NoBrokerError, RequestFailedError
from kafkapy.clients.mirror.common import MirrorError, MirrorOptions, Place, passes
from kafkapy.clients.mirror.others import OtherMirror, OtherMirrors
from kafkapy.clients.mirror.positions import Position, positions
from kafkapy.clients.mirror.settings import OWN_KEYS, TOPICS_AT_A_TIME, TopicConfigSync
from kafkapy.clients.mirror.source_topics import SourceTopics
from kafkapy.clients.topics import TopicToCreate
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.metadata import MetadataResponseTopic

_NOT_THERE_YET: Final = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_UNSTABLE: Final = frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT})


class Selection(NamedTuple):
    """The partitions to copy that have leaders on both sides, and the paths of their topics.

    ``without_leader`` are the partitions that have to wait for one, also those of the topics in ``missing``, which the
    source does not list just now. ``created`` are the topics that were not on the target and of which no position is
    committed there yet, ``matching`` is how many topics have names that match, also those that come from the target and
    are not copied.
    """

    source_leaders: dict[Place, int]
    target_leaders: dict[Place, int]
    paths: dict[str, str]
    without_leader: list[Place]
    created: frozenset[str] = frozenset()
    matching: int = 0
    missing: frozenset[str] = frozenset()


class TopicSelector:
    """Looks up topics on both sides; creates and grows those of the target."""

    def __init__(
        self,
        clients: tuple[ClusterClient, ClusterClient],
        options: MirrorOptions,
        topic_configs: TopicConfigSync,
        *,
        now_s: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        self._source, self._target = clients
        self._source_topics = SourceTopics(self._source, options.topics, now_s, report)
        self._others = OtherMirrors(self._target, options.group)
        self._configs = topic_configs
        self._options = options
        self._report = report
        self._told: dict[str, tuple[int, int]] = {}
        self._skipped: set[str] = set()
        self._created: set[str] = set()
        self._ids = ("", "")

    def check_clusters(self) -> None:
        """Raise MirrorError if both addresses are of one cluster, NoBrokerError if no broker of one answers."""
        first = _cluster_id(self._source, "--from")
        second = _cluster_id(self._target, "--to")
        if first is not None and first == second:
            raise MirrorError(f"--from and --to are the same cluster, with the id {first}: name two different ones")
        self._ids = first or "unknown-source", second or "unknown-target"

    def select(self, committed: Mapping[Place, Position]) -> Selection:
        """The partitions to copy now; ``committed`` are the positions on the target.

        Raises MirrorError where topics don't fit together, RequestFailedError where the target refuses a topic,
        NoBrokerError while the source does not know its topics.
        """
        matching = self._source_topics.look_up()
        marks = _paths(positions(self._source, self._options.group))
        stored = _paths(committed)
        chosen = {}
        for topic in matching:
            name = topic.name or ""
            if not self._goes_back(name, marks, stored):
                chosen[name] = topic
                self._check_origin(name, stored.get(name))
        missing = self._source_topics.missing
        found = self._prepare({name: topic for name, topic in chosen.items() if name not in missing})
        paths = {name: ",".join(filter(None, (self._ids[0], marks.get(name)))) for name in chosen}
        source_leaders, target_leaders = _leaders(chosen.values()), _leaders(found)
        all_places = {(name, each.partition_index) for name in chosen for each in chosen[name].partitions}
        both = source_leaders.keys() & target_leaders.keys()
        return Selection(
            {place: source_leaders[place] for place in both},
            {place: target_leaders[place] for place in both},
            paths,
            sorted(all_places - both),
            frozenset(self._created),
            len(matching),
            missing,
        )

    def others(self, places: Iterable[Place]) -> Mapping[Place, OtherMirror]:
        """Those of the places that other mirrors copy from other clusters; see ``OtherMirrors.look_up``."""
        return self._others.look_up(places, self._ids[0])

    def begun(self, topics: Iterable[str]) -> None:
        """Positions of topics that were created are committed: from then on they count, not those from before."""
        self._created.difference_update(topics)

    def _goes_back(self, name: str, marks: Mapping[str, str], stored: Mapping[str, str]) -> bool:
        """Whether the source has the topic from the target; if each has it from the other, the smaller id may copy."""
        source_id, target_id = self._ids
        if target_id not in marks.get(name, "").split(","):
            return False
        is_mutual = source_id in stored.get(name, "").split(",")
        if is_mutual and source_id < target_id:
            return False
        if name not in self._skipped:
            self._skipped.add(name)
            self._report(
                f"topic {name} is not copied: group {self._options.group} of the source says that it comes from the"
                " target. To turn a mirror round, delete that group there"
            )
        return True

    def _check_origin(self, name: str, path: str | None) -> None:
        """Raise MirrorError if the positions are of another source; an offset without a path counts as one of this."""
        origin = (path or "").split(",")[0]
        if origin and origin != self._ids[0]:
            raise MirrorError(
                f"topic {name}: group {self._options.group} on the target has positions in cluster {origin},"
                f" not in {self._ids[0]}: choose another --group, or leave the topic out with --topics"
            )

    def _prepare(self, chosen: Mapping[str, MetadataResponseTopic]) -> list[MetadataResponseTopic]:
        """The target's topics, after those that are missing or have fewer partitions have been changed."""
        existing = {topic.name or "": topic for topic in self._target.metadata().topics}
        missing = [name for name in chosen if name not in existing]
        for at in range(0, len(missing), TOPICS_AT_A_TIME):
            part = missing[at : at + TOPICS_AT_A_TIME]
            self._create({name: len(chosen[name].partitions) for name in part})
        changed = [*missing, *self._grown(chosen, existing)]
        same = chosen.keys() - changed
        return [existing[name] for name in chosen if name in same] + self._changed(changed, chosen)

    def _grown(
        self, chosen: Mapping[str, MetadataResponseTopic], existing: Mapping[str, MetadataResponseTopic]
    ) -> list[str]:
        """Add partitions to the topics that have fewer on the target, and return these; lines tell what is uneven."""
        counts = {
            name: (len(existing[name].partitions), len(topic.partitions))
            for name, topic in chosen.items()
            if name in existing
        }
        uneven = {name: pair for name, pair in counts.items() if pair[0] != pair[1] and pair != self._told.get(name)}
        places = [(name, index) for name, (there, _) in uneven.items() for index in range(there)]
        others = self._target.retrying(lambda: self.others(places), also=_UNSTABLE)
        of_topic = {topic: f"; {other.text}" for (topic, _), other in others.items()}
        grown = []
        for name, (there, wanted) in uneven.items():
            if there < wanted:
                self._grow(name, wanted, of_topic.get(name, ""))
                grown.append(name)
            else:
                self._told[name] = there, wanted
                self._report(
                    f"topic {name} has {there} partitions on the target and {wanted} on the source, so producers that"
                    " move to the target will choose other partitions for the same keys; if that matters, add"
                    f" partitions on the source (kafkapy topics alter {name} --partitions {there})"
                    + of_topic.get(name, "")
                )
        return grown

    def _grow(self, name: str, wanted: int, beside: str) -> None:
        try:
            client_topics.grow_topic(self._target, name, wanted)
        except RequestFailedError as error:
            if error.code != ErrorCode.INVALID_PARTITIONS:  # it has as many since it was looked up
                raise
        else:
            self._report(f"topic {name} has {wanted} partitions on the target now, as on the source{beside}")

    def _changed(
        self, names: Sequence[str], chosen: Mapping[str, MetadataResponseTopic]
    ) -> list[MetadataResponseTopic]:  # fmt: skip
        """Topics as they are when the change of their partitions is known to the brokers."""

        def attempt() -> list[MetadataResponseTopic]:
            found = self._target.metadata(names).topics
            for topic in found:
                is_whole = len(topic.partitions) >= len(chosen[topic.name or ""].partitions)
                if not is_whole or any(partition.leader_id < 0 for partition in topic.partitions):
                    raise RequestFailedError(ErrorCode.LEADER_NOT_AVAILABLE, what=f"topic {topic.name} on the target")
            return found

        return self._target.retrying(attempt, also=_NOT_THERE_YET) if names else []

    def _create(self, partitions: Mapping[str, int]) -> None:
        """Create topics with so many partitions, with one request; what fails for one does not stop the others."""
        own = self._configs.of_source(partitions)
        failed = self._create_with(partitions, own)
        without = {
            name: {key: value for key, value in own[name].items() if not key.startswith(OWN_KEYS)}
            for name, error in failed.items()
            if error.code == ErrorCode.INVALID_CONFIG
        }
        again = {name: partitions[name] for name, general in without.items() if general != own[name]}
        if again:  # keys of kafkapy, which another target does not know
            failed = {name: error for name, error in failed.items() if name not in again}
            failed |= self._create_with(again, without)
        for name in sorted(partitions.keys() - failed.keys()):
            self._report(f"topic {name} is created on the target")
        for name, error in failed.items():
            if passes(error):
                raise error
            raise MirrorError(
                f"{error}; the target refuses to create the topic: create it there with {partitions[name]} partitions,"
                " or leave it out with --topics"
            ) from error

    def _create_with(
        self, partitions: Mapping[str, int], own: Mapping[str, Mapping[str, str]]
    ) -> dict[str, RequestFailedError]:
        """Create topics with these configurations; returns why some are not."""
        factor = self._options.replication_factor
        wanted = [TopicToCreate(name, count, factor, own[name]) for name, count in partitions.items()]
        failed = {}
        for name, error in client_topics.create_topics(self._target, wanted).items():
            if error is None:
                self._configs.remember(name, own[name])
                self._created.add(name)
            elif error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # since it was looked up
                failed[name] = error
        return failed


def _cluster_id(client: ClusterClient, option: str) -> str | None:
    try:
        return client.metadata([]).cluster_id
    except NoBrokerError as error:
        raise NoBrokerError(f"{option}: {error}") from error


def _paths(found: Mapping[Place, Position]) -> dict[str, str]:
    """The path of each topic that has positions."""
    return {topic: position.path for (topic, _), position in found.items()}


def _leaders(topics: Iterable[MetadataResponseTopic]) -> dict[Place, int]:
    return {
        (topic.name or "", each.partition_index): each.leader_id
        for topic in topics
        for each in topic.partitions
        if each.leader_id >= 0
    }
