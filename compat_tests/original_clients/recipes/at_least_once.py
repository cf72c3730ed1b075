"""At least once: work on records, then commit. A crash in between repeats those since the last commit; none is lost.

`python -m compat_tests.original_clients.recipes.at_least_once ZOOKEEPER GROUP TOPIC` prints the records of a topic.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

from kafkapy.clients.original.consumer_connector import ConsumerConnector, OffsetsLostError
from kafkapy.clients.original.streams import ConsumerTimeoutError, MessageAndMetadata

COMMIT_EVERY = 10
"""Records between two commits: as many may be repeated after a crash."""


def run(properties: Mapping[str, str], topic: str, work: Callable[[MessageAndMetadata], None]) -> None:
    """Work on each record of a topic, until none comes within `consumer.timeout.ms`.

    Automatic commits are off: they commit a record when it is taken, before the work is done. There is one stream,
    since a commit is about all records that were taken from any stream.
    """
    with ConsumerConnector({**properties, "auto.commit.enable": "false"}) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        try:
            for number, record in enumerate(stream, 1):
                work(record)
                if number % COMMIT_EVERY == 0:
                    with suppress(OffsetsLostError):  # the records since the last commit come again
                        connector.commit_offsets()
        except ConsumerTimeoutError:
            connector.commit_offsets()


if __name__ == "__main__":
    zookeeper, group, name = sys.argv[1:]
    run({"zookeeper.connect": zookeeper, "group.id": group, "auto.offset.reset": "smallest"}, name, print)
