"""Exactly once: the results and the offset are stored together, in one transaction of the database with the output.

After a crash the program continues at the offset in the database, which is that of the last stored result. Kafka stores
no offset; the simple consumer starts wherever it is told to.

`python -m compat_tests.original_clients.recipes.exactly_once BROKERS TOPIC DATABASE` copies a topic into SQLite.
"""

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError
from kafkapy.clients.simple_consumer import SimpleConsumer, SimpleFetch
from kafkapy.records.record import Record

TABLES = """
CREATE TABLE IF NOT EXISTS results (partition INTEGER, source_offset INTEGER, result TEXT);
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next_offset INTEGER);
"""


class OtherWriterError(Exception):
    """Another program stores results of the same partition in this database."""


def run(bootstrap: str, topic: str, database: str, result_of: Callable[[Record], str], max_wait_ms: int) -> None:
    """Store the result of each record of a topic, until no partition has a new one within `max_wait_ms`."""
    with closing(sqlite3.connect(database)) as connection, ClusterClient(bootstrap) as cluster:
        connection.executescript(TABLES)
        goes_on = True
        while goes_on:
            found = cluster.topic(topic)
            brokers = {broker.node_id: (broker.host, broker.port) for broker in cluster.metadata([topic]).brokers}
            goes_on = False
            for each in found.partitions:
                try:
                    with SimpleConsumer(*brokers[each.leader_id]) as consumer:
                        while copy_some(connection, consumer, (topic, each.partition_index), result_of, max_wait_ms):
                            goes_on = True
                except ClientError as error:  # the leader has changed, or is away: look again
                    print(error, file=sys.stderr)
                    goes_on = True


def copy_some(
    connection: sqlite3.Connection,
    consumer: SimpleConsumer,
    place: tuple[str, int],
    result_of: Callable[[Record], str],
    max_wait_ms: int,
) -> bool:
    """Store the results of one fetch, and where the next begins, in one transaction; false if nothing came."""
    topic, partition = place
    row = connection.execute("SELECT next_offset FROM positions WHERE partition = ?", (partition,)).fetchone()
    position = 0 if row is None else row[0]
    fetched = consumer.fetch(SimpleFetch(topic, partition, position, max_bytes=4096), max_wait_ms)
    if fetched.next_offset == position:
        return False
    with connection:  # a transaction: commits at the end, rolls back after an error
        rows = [(partition, record.offset, result_of(record)) for record in fetched.records]
        connection.execute("INSERT OR IGNORE INTO positions VALUES (?, 0)", (partition,))
        moved = connection.execute(
            "UPDATE positions SET next_offset = ? WHERE partition = ? AND next_offset = ?",
            (fetched.next_offset, partition, position),
        )
        if moved.rowcount != 1:
            raise OtherWriterError(f"another program has stored results of {topic}-{partition}")
        connection.executemany("INSERT INTO results VALUES (?, ?, ?)", rows)
    return True


def text_of(record: Record) -> str:
    """The result of a record."""
    return (record.value or b"").decode(errors="replace")


if __name__ == "__main__":
    brokers, name, path = sys.argv[1:]
    run(brokers, name, path, text_of, max_wait_ms=5_000)
