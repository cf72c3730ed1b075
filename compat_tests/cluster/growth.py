"""Runs the commands of docs/growing.md beside busy clients, and checks that no record, offset or transaction is lost.

`python -m compat_tests.cluster.growth NAME DIRECTORY` needs a network of its own, since the clients use the
ports of the page (`test_growing.py`). It prints what the steps took.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from compat_tests.cluster.busy_clients import (
    PARTITIONS,
    Member,
    Transactions,
    Writer,
    all_running,
    commit_offsets,
    transactional,
    values,
)
from compat_tests.exchange.contents import QUIET, Contents, committed, read_all
from compat_tests.pages.shell import Shell
from compat_tests.pages.snippets import sections
from harness.process import HOST, wait_for

PAGE = {each.heading: each for each in sections("docs/growing.md")}
PORTS = range(9092, 9098)
GROUPS = {f"audit-{number}": number % 2 for number in range(12)}
"""Enough groups without members to have several coordinators, and their offsets."""
REST_S = 60.0


class Growth:
    """The page's shell and the clients, and what the topics contained after the last step."""

    def __init__(self, shell: Shell, stack: ExitStack) -> None:
        self.shell = shell
        self._stack = stack
        self._before: Contents = {}
        self.measured: list[str] = []

    @property
    def bootstrap(self) -> str:
        """All brokers of the page; those that do not run are left out by the clients."""
        return ",".join(f"{HOST}:{port}" for port in PORTS)

    def section(self, begins: str) -> None:
        """Run the snippets of the section whose heading begins so."""
        (section,) = (found for heading, found in PAGE.items() if heading.startswith(begins))
        for snippet in section.snippets:
            started = time.monotonic()
            self.shell.run(snippet)
            if snippet.runs:
                self.measured.append(f"{time.monotonic() - started:6.1f} s  {snippet.text.splitlines()[0][:100]}")

    def start_clients(self) -> None:
        """Start the clients, once topics exist."""
        self.writer = Writer(self.bootstrap, "orders")
        self.transactions = Transactions(self.bootstrap, "payments", "steady")
        self.member = Member(self.bootstrap, "orders", "billing")
        for each in (self.writer, self.transactions, self.member):
            self._stack.callback(each.close)
        commit_offsets(self.bootstrap, "orders", GROUPS)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Clients write, read and commit within; then everything is compared."""
        clients = (self.writer, self.transactions, self.member)
        started = time.monotonic()
        with all_running(*clients):
            yield
            took = time.monotonic() - started
        gaps = ", ".join(f"{type(each).__name__} {each.longest_gap_s:.1f} s" for each in clients)
        self.measured.append(f"{took:6.1f} s  {what}; longest pauses: {gaps}")

    def check(self, replicas: Iterable[int]) -> None:
        """Everything is where it was, new records follow, and all replicas of each partition have the same bytes."""
        expected = set(replicas)
        assert wait_for(lambda: self.placed() == {frozenset(expected)}, REST_S), self.placed()
        contents = read_all(self.bootstrap)
        for place, records in self._before.items():
            assert contents[place][: len(records)] == records, place
        self._before = contents
        for place in self.writer.acknowledged:
            found = {record.offset: record.value for record in contents[place] if record.value != b"first order"}
            self.writer.check(place, found)
            assert [record.offset for record in contents[place]] == list(range(len(contents[place])))
        assert self.shown("payments") == sorted(self.transactions.committed)
        assert values(contents, "payments") == sorted(self.transactions.committed + self.transactions.aborted)
        for group, offset in GROUPS.items():
            assert {each for each, _ in committed(self.bootstrap, group).values()} == {offset}
        assert wait_for(lambda: not self.different_logs(expected), REST_S), self.different_logs(expected)

    def shown(self, topic: str) -> list[bytes]:
        """The values of a topic that are committed, sorted."""
        return values(read_all(self.bootstrap, committed=True), topic)

    def check_the_group(self) -> None:
        """The member of the group reads every record that was acknowledged; it has left out none (`Member`)."""
        expected = {place: dict(found) for place, found in self.writer.acknowledged.items()}
        with all_running(self.writer, self.member):
            read = self.member.read
            assert wait_for(
                lambda: all(read[place].items() >= found.items() for place, found in expected.items()), REST_S
            )
        self.measured.append(
            f"{self.writer.done} records were acknowledged, {self.member.again} came to the group twice"
        )

    def placed(self) -> set[frozenset[int]]:
        """The sets of brokers that hold a partition; an empty one for one with a replica that is not in sync."""
        found = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET}).list_topics(timeout=REST_S)
        partitions = [each for topic in found.topics.values() for each in topic.partitions.values()]
        assert len(partitions) > 3 * PARTITIONS
        return {
            frozenset(each.replicas) if set(each.isrs) == set(each.replicas) else frozenset() for each in partitions
        }

    def leaders(self) -> dict[int, int]:
        """How many partitions each broker leads."""
        found = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET}).list_topics(timeout=REST_S)
        leaders = [each.leader for topic in found.topics.values() for each in topic.partitions.values()]
        return {leader: leaders.count(leader) for leader in leaders}

    def different_logs(self, brokers: Iterable[int]) -> list[str]:
        """The partitions whose files differ between these brokers, or are missing on one."""
        folders = [self.data(broker) for broker in brokers]
        names = {path.name for folder in folders for path in partition_folders(folder)}
        return sorted(name for name in names if len({log_bytes(folder / name) for folder in folders}) > 1)

    def data(self, broker: int) -> Path:
        """A broker's data directory."""
        return self.shell.directory / "data" / str(broker)


def partition_folders(folder: Path) -> list[Path]:
    """The folders of partitions, without those that are to be removed."""
    return [path for path in folder.iterdir() if path.is_dir() and not path.name.endswith("-delete")]


def log_bytes(folder: Path) -> bytes | None:
    """All records of a partition, as they are in its files."""
    if not folder.exists():
        return None
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def begin(producer: Producer, value: bytes) -> None:
    """Begin a transaction in all partitions, and leave it open."""
    producer.begin_transaction()
    for index in range(PARTITIONS):
        producer.produce("ledger", value, partition=index)
    assert producer.flush(REST_S) == 0


@contextmanager
def growth(directory: Path) -> Iterator[Growth]:
    """The page's shell; at the end its log and what the steps took are printed."""
    with ExitStack() as stack:
        shell = stack.enter_context(Shell(directory, os.environ, []))
        found = Growth(shell, stack)
        try:
            yield found
        finally:
            print(shell.log_tail(200), *found.measured, sep="\n")


def _become_three(growth: Growth) -> tuple[Producer, Producer]:
    """Steps 1 to 4, with a transaction of each returned producer open from the first step on."""
    growth.section("1. ")
    growth.start_clients()
    with growth.busy("before"):
        pass
    first, second = (transactional(growth.bootstrap, name) for name in ("first", "second"))
    begin(first, b"first")
    begin(second, b"second")
    growth.check([1])
    with growth.busy("2: to ZooKeeper"):
        growth.section("2. ")
    growth.check([1])
    with growth.busy("3: two more brokers"):
        growth.section("3. ")
    growth.check([1])
    with growth.busy("4: three replicas"):
        growth.section("4. ")
    growth.check([1, 2, 3])
    assert min(growth.leaders().values()) > 30, growth.leaders()
    assert growth.shown("ledger") == []
    return first, second


def without_kafka(growth: Growth) -> None:
    """One broker becomes three and one again, with the way back from step 4."""
    first, second = _become_three(growth)
    with growth.busy("back from step 4"):
        growth.section("If a step fails")
    growth.check([1])
    with growth.busy("7: one broker again"):
        growth.section("7. ")
    growth.check([1])
    first.commit_transaction(REST_S)
    second.abort_transaction(REST_S)
    assert growth.shown("ledger") == [b"first"] * PARTITIONS
    growth.check_the_group()


def with_kafka(growth: Growth) -> None:
    """One broker becomes three, then Apache Kafka, and one again."""
    first, second = _become_three(growth)
    first.commit_transaction(REST_S)
    second.abort_transaction(REST_S)
    assert growth.shown("ledger") == [b"first"] * PARTITIONS

    begin(first, b"third")
    with growth.busy("5: to Apache Kafka"):
        growth.section("5. ")
    growth.check([4, 5, 6])
    first.commit_transaction(REST_S)
    begin(second, b"fourth")
    with growth.busy("6: back to kafkapy"):
        growth.section("6. ")
    growth.check([1, 2, 3])
    begin(first, b"fifth")
    with growth.busy("7: one broker again"):
        growth.section("7. ")
    growth.check([1])
    second.commit_transaction(REST_S)
    first.abort_transaction(REST_S)
    assert growth.shown("ledger") == sorted([b"first", b"third", b"fourth"] * PARTITIONS)
    growth.check_the_group()


WAYS = {"without-kafka": without_kafka, "with-kafka": with_kafka}


def main() -> None:
    name, directory = sys.argv[1:]
    with growth(Path(directory)) as found:
        WAYS[name](found)
        found.shell.stop()


if __name__ == "__main__":
    main()
