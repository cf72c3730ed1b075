"""The owner of each partition: the algorithm that every member of a group computes for itself, with the same result.

For each topic the consumer threads that want it are sorted by their ids as texts (so ``…-10`` comes before ``…-2``),
the partitions by number. Each thread gets a range: with ``p`` partitions and ``t`` threads the first ``p mod t``
threads get one more than the others (Kafka's documentation, "Consumer rebalancing algorithm").
"""

from collections.abc import Iterable, Mapping, Sequence

from kafkapy.clients.original.subscription import Subscription


def thread_id(consumer_id: str, number: int) -> str:
    """The id of a consumer's stream, which the owner of a partition is called by."""
    return f"{consumer_id}-{number}"


def threads_of_topic(members: Mapping[str, Subscription], topic: str, *, exclude_internal: bool) -> list[str]:
    """All consumer threads of a group that want the topic, in the order of the assignment."""
    return sorted(
        thread_id(consumer_id, number)
        for consumer_id, subscription in members.items()
        for number in range(subscription.wants(topic, exclude_internal=exclude_internal))
    )


def assign_range(threads: Sequence[str], partitions: Iterable[int]) -> dict[int, str]:
    """Partition → its thread, of all partitions of one topic; ``threads`` are sorted. Empty without threads."""
    ordered = sorted(partitions)
    if not threads:
        return {}
    each, more = divmod(len(ordered), len(threads))
    owners = {}
    for place, thread in enumerate(threads):
        first = each * place + min(place, more)
        for partition in ordered[first : first + each + (1 if place < more else 0)]:
            owners[partition] = thread
    return owners


def assign_to(
    consumer_id: str,
    members: Mapping[str, Subscription],
    partitions_by_topic: Mapping[str, Iterable[int]],
    *,
    exclude_internal: bool,
) -> dict[tuple[str, int], int]:
    """Topic and partition → the number of this consumer's thread that owns it."""
    owned = {}
    own = members[consumer_id]
    for topic, partitions in partitions_by_topic.items():
        threads = threads_of_topic(members, topic, exclude_internal=exclude_internal)
        numbers = {
            thread_id(consumer_id, number): number
            for number in range(own.wants(topic, exclude_internal=exclude_internal))
        }
        for partition, thread in assign_range(threads, partitions).items():
            if thread in numbers:
                owned[topic, partition] = numbers[thread]
    return owned
