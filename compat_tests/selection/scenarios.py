"""The client and the scenario of a test: the cells of the table client × scenario × target.

A test, or with `pytestmark` a whole file, says what it shows:

    pytestmark = pytest.mark.scenario("groups")                              # of the parameter named `client`
    pytestmark = pytest.mark.scenario("admin", client="kcat")
    pytestmark = pytest.mark.scenario("groups", client="java-{old_agent}")   # of a parameter by another name

and where a broker rightly behaves otherwise, the reason, test by test:

    @pytest.mark.differs("kafka-4.4.0", reason="message format 0 is gone (KIP-724)")

Such a test runs and must fail there; should it pass, the mark is wrong, and that fails. Of a test with parameters,
`cases` names those that are meant: what stands in brackets behind its name, without the target, or a pattern for it.
"""

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

import pytest

SCENARIOS = {
    "records": "what is produced is consumed: codecs, headers, keys, partitioners, timestamps",
    "groups": "groups, their members and rebalances, committed offsets",
    "offset resets": "where a group without an offset, or with one that is gone, begins",
    "transactions": "what is committed is read, what is aborted is not",
    "admin": "topics, partitions, configurations, groups listed and described",
    "security": "TLS with and without certificates of clients, PLAIN, SCRAM, OAUTHBEARER and GSSAPI",
    "errors": "what is refused, how it is told, what is tried again",
    "restart": "the broker ends and comes back under load",
}
MARKS = (
    "clusters: the test needs several brokers: it runs on the targets that are clusters alone",
    "one_broker(reason): the test, though a client's scenario, is about a single broker: no cluster is its target",
    "long_on_clusters: as long, on the targets that are clusters",
    "long_on_kafka: as long, on Apache Kafka: what the test shows does not depend on the broker",
    "together: the tests of this file, of one target, run in one process, since they share what costs much to set up",
    "scenario(name, client='{client}'): counts the test under this client in the table of results",
    "differs(*targets, reason, cases=['*']): the test, in these cases, fails on these targets, for this reason",
)
IN_KRAFT = ("kafka-3.9.1", "kafka-4.4.0")
"""The releases with KRaft, without ZooKeeper."""
ON_CLUSTERS = {
    "client": ("kafka-python", "confluent-kafka", "java-2.7.2", "franz-go"),
    "tools_version": ("2.7.2",),
}
"""By parameter, the clients and tools whose tests are run on clusters in short runs too: one of each kind."""
KILLED_UNDER = ("confluent-kafka", "java-2.7.2", "franz-go")
"""The clients of short runs under which brokers of a cluster are killed. kafka-python is not among them: after some
kills its producer finds no node to ask for metadata within its own 60 s, though two brokers serve."""
NO_TARGET = "-"
"""The column of tests that take no broker from `--target`."""


class Cell(NamedTuple):
    """The client and the scenario that a test counts for; both are empty for a test that shows something else."""

    target: str
    client: str = ""
    scenario: str = ""


def parameters(item: pytest.Item) -> dict[str, object]:
    """The values that a test is called with by its parameters."""
    call = getattr(item, "callspec", None)
    return dict(call.params) if call is not None else {}


def selected(request: pytest.FixtureRequest, parameter: str) -> list[str]:
    """The values of a parameter that the selected tests of the requesting file have, on any target.

    A fixture for all tests of a file leaves out clients that are not selected.
    """
    own = (parameters(item) for item in request.session.items if item.path == request.path)
    return list(dict.fromkeys(str(each[parameter]) for each in own if parameter in each))


def target_of(item: pytest.Item) -> str:
    """The target of a test, NO_TARGET when it has none."""
    return str(parameters(item).get("broker", NO_TARGET))


def in_order(items: list[pytest.Item]) -> None:
    """Sort tests by target, and of a target the files with the longest time-outs first.

    Under `-n` the processes then end at nearly the same time, with short tests.
    """
    longest: dict[str, float] = {}
    for item in items:
        timeout = item.get_closest_marker("timeout")
        if timeout is not None and item.get_closest_marker("long") is None:
            file = item.nodeid.partition("::")[0]
            longest[file] = max(longest.get(file, 0), timeout.args[0])

    def place(item: pytest.Item) -> tuple[str, float]:
        target = target_of(item)
        return target, 0 if target == NO_TARGET else -longest.get(item.nodeid.partition("::")[0], 0)

    items.sort(key=place)


def case_of(arguments: str, target: str) -> str:
    """The text in a test's brackets, without its target: the same on every target."""
    return re.sub(rf"(^|-){re.escape(target)}(?=-|$)", "", arguments, count=1).removeprefix("-")


def runs_on(item: pytest.Item, *, is_cluster: bool) -> bool:
    """Whether the test is one for its target: clients' scenarios run on clusters, requests to one broker don't."""
    if not is_cluster:
        return item.get_closest_marker("clusters") is None
    return item.get_closest_marker("scenario") is not None and item.get_closest_marker("one_broker") is None


def is_long_on_clusters(item: pytest.Item) -> bool:
    """Whether the test, on a cluster, is one of the long runs alone."""
    if item.get_closest_marker("long_on_clusters") is not None:
        return True
    found = parameters(item)
    mark = item.get_closest_marker("scenario")
    if mark is not None and mark.args[0] == "restart" and found.get("name", KILLED_UNDER[0]) not in KILLED_UNDER:
        return True
    return any(name in found and found[name] not in short for name, short in ON_CLUSTERS.items())


def cell_of(item: pytest.Item) -> Cell:
    """The client and the scenario that a test counts for; raises UsageError for a mark that can't be understood."""
    target = target_of(item)
    mark = item.get_closest_marker("scenario")
    if mark is None:
        return Cell(target)
    (scenario,) = mark.args
    if scenario not in SCENARIOS:
        raise pytest.UsageError(f"{item.nodeid}: no scenario {scenario!r} in compat_tests/selection/scenarios.py")
    try:
        return Cell(target, mark.kwargs.get("client", "{client}").format(**parameters(item)), scenario)
    except KeyError as unknown:
        raise pytest.UsageError(f"{item.nodeid}: its scenario's client is the parameter {unknown}") from unknown


def mark_differences(item: pytest.Item) -> None:
    """Turns the `differs` marks for a test's target into what is expected of it."""
    for mark in item.iter_markers("differs"):
        cases = mark.kwargs.get("cases", ["*"])
        case = case_of(item.name.partition("[")[2].removesuffix("]"), target_of(item))
        if target_of(item) in mark.args and any(fnmatchcase(case, each) for each in cases):
            item.add_marker(pytest.mark.xfail(reason=mark.kwargs["reason"], strict=True))
