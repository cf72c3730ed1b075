"""The brokers under test, by `--target`, and the tables at the end of a run."""

import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat_tests.brokers.targets import (
    KAFKA,
    KAFKAPY,
    KNOWN,
    MissingEngineError,
    TargetError,
    check,
    is_cluster,
    running,
)
from compat_tests.clients.agents import Agents
from compat_tests.clients.java_tools.tools import Tools, ToolsOf
from compat_tests.groups.wire import Wire, find_coordinator
from compat_tests.report.results import Results, mark, tables
from compat_tests.selection.libraries import why_not_imported
from compat_tests.selection.scenarios import MARKS, in_order, is_long_on_clusters, mark_differences, runs_on, target_of
from harness.jars import VERSIONS, jars_directory
from harness.java import NoJavaError, find_java
from harness.process import Broker
from harness.watchdog import watch

RESULTS = "kafkapy-results"
GROUPS = 32
"""Enough names for each of a few partitions to keep one."""
Collected = Generator[None, pytest.CollectReport, pytest.CollectReport]
TOPIC_NUMBERS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--target", action="append", metavar="TARGET", help=f"{KNOWN}; may be repeated")
    parser.addoption("--results", type=Path, metavar="FILE", help="puts each test's result into this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    watch(config)
    # kafka-python loads its schemas through a deprecated function, once for each message.
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")
    for line in MARKS:
        config.addinivalue_line("markers", line)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(), RESULTS)
        _check_targets(config)


def _targets(config: pytest.Config) -> list[str]:
    return list(dict.fromkeys(config.getoption("--target") or [KAFKAPY]))


def _check_targets(config: pytest.Config) -> None:
    """Ends the run before it begins, with one line, when a target is none."""
    for target in _targets(config):
        try:
            check(target)
        except MissingEngineError:
            continue  # its tests are skipped
        except TargetError as error:
            raise pytest.UsageError(str(error)) from error


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The result of each test on each target, side by side."""
    results = config.pluginmanager.get_plugin(RESULTS)
    assert isinstance(results, Results)
    if results.found:
        terminalreporter.section("results")
        for line in tables(results.found.values(), verbose=config.get_verbosity() > 0):
            terminalreporter.write_line(line)
    path: Path | None = config.getoption("--results")
    if path is not None:
        results.write(path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs every test that takes `broker` on each target; `runs_on` leaves some out."""
    if "broker" in metafunc.fixturenames:
        metafunc.parametrize("broker", _targets(metafunc.config), indirect=True, scope="session")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Our distribution of tests over processes, unless the command line names one of xdist's."""
    if config.getoption("dist") != "load":
        return None
    from compat_tests.selection.scheduling import ByTarget

    return ByTarget(config, log, _targets(config))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file that imports a client library that is not installed."""
    report = yield
    if report.failed and (reason := why_not_imported(str(report.longrepr))):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 1, f"Skipped: {reason}")
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what needs Java, and groups tests by target so that one broker runs at a time, the longest ones first."""
    fits = {item: runs_on(item, is_cluster=is_cluster(target_of(item))) for item in items}
    items[:] = [item for item in items if fits[item]]
    config.hook.pytest_deselected(items=[item for item in fits if not fits[item]])
    for item in items:
        on_cluster = is_cluster(target_of(item))
        on_kafka = target_of(item).startswith(KAFKA)
        if on_kafka or on_cluster:
            item.add_marker("java")
        if (on_cluster and is_long_on_clusters(item)) or (on_kafka and item.get_closest_marker("long_on_kafka")):
            item.add_marker("long")
        mark_differences(item)
        mark(item)
    in_order(items)


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker of the asked-for kind, shared by all tests of the session."""
    try:
        check(request.param)
    except MissingEngineError as missing:
        pytest.skip(str(missing))
    except TargetError as error:
        pytest.fail(str(error), pytrace=False)
    with running(request.param) as found:
        if not is_cluster(request.param):  # it has made them
            _make_coordinators(found)
        yield found


def _make_coordinators(broker: Broker) -> None:
    """Waits until each partition of `__consumer_offsets` has a leader; the first request creates them."""
    with Wire(broker.bootstrap) as wire:
        for number in range(GROUPS):
            find_coordinator(wire, f"warm-up-{number}")


@pytest.fixture(autouse=True)
def lasting_broker(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test in which the broker ended by itself, and each test after it."""
    found: Broker | None = request.getfixturevalue("broker") if "broker" in request.fixturenames else None
    if found is not None and (reason := found.why_gone()):
        pytest.fail(reason, pytrace=False)
    yield
    if found is not None and (reason := found.why_gone()):
        pytest.fail(f"during this test {reason}", pytrace=False)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test of this session uses, nor an earlier session on a broker that keeps running."""
    test = request.node.originalname if isinstance(request.node, pytest.Function) else "topic"
    return f"{test[:80]}-{os.getpid()}-{next(TOPIC_NUMBERS)}"


@pytest.fixture(scope="session", params=VERSIONS)
def tools_version(request: pytest.FixtureRequest) -> str:
    """Each Kafka release whose command-line tools are tested."""
    version: str = request.param
    try:
        find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    if not jars_directory(version).exists():
        pytest.skip(f"the jars of Kafka {version} are not here: run make jars")
    return version


@pytest.fixture(scope="session")
def tools_of() -> Iterator[ToolsOf]:
    """Hands out one running JVM for each release, whatever the order of the tests."""
    running: dict[str, Tools] = {}
    with ExitStack() as stack:

        def get(version: str) -> Tools:
            if version not in running:
                running[version] = stack.enter_context(Tools(version))
            return running[version]

        yield get


@pytest.fixture(scope="session")
def agents() -> Iterator[Agents]:
    """The programs of the clients in other languages."""
    started = Agents()
    yield started
    started.close()


@pytest.fixture
def kafka_tools(tools_of: ToolsOf) -> Tools:
    """The tools of 2.7.2, with whose files those of kafkapy are compared."""
    return tools_of("2.7.2")
