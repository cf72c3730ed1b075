"""At most once: commit a record's offset, then work on it. A crash in between loses this record; none is done twice.

`python -m compat_tests.original_clients.recipes.at_most_once ZOOKEEPER GROUP TOPIC` prints the records of a topic.
"""

import sys
from collections.abc import Callable, Mapping

from kafkapy.clients.original.consumer_connector import ConsumerConnector, OffsetsLostError
from kafkapy.clients.original.streams import ConsumerTimeoutError, MessageAndMetadata


def run(properties: Mapping[str, str], topic: str, work: Callable[[MessageAndMetadata], None]) -> None:
    """Work on each record of a topic, until none comes within `consumer.timeout.ms`.

    Automatic commits stay on: before a partition goes to another consumer, the offset after the last record that this
    one has taken is committed, so the other does not get that record again.
    """
    with ConsumerConnector({**properties, "auto.commit.enable": "true"}) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        try:
            for record in stream:
                try:
                    connector.commit_offsets()
                except OffsetsLostError:  # another consumer may get the record, and this one gets it again
                    continue
                work(record)
        except ConsumerTimeoutError:
            return


if __name__ == "__main__":
    zookeeper, group, name = sys.argv[1:]
    run({"zookeeper.connect": zookeeper, "group.id": group, "auto.offset.reset": "smallest"}, name, print)
