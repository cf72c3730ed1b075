"""The brokers under test: `--target kafkapy` (the default), `kafka-2.7.2`, `-3.9.1`, `-4.1.0`, or `host:port`."""

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat_tests.kafkapy_process import KafkapyProcess
from compat_tests.process import Broker
from compat_tests.real_kafka import RealKafka
from compat_tests.remote import RemoteBroker
from compat_tests.results import Results, mark, tables
from compat_tests.scenarios import MARKS, mark_differences, target_of
from tools.jars import VERSIONS, jars_directory
from tools.java import NoJavaError, find_java

KAFKA = "kafka-"
RESULTS = "kafkapy-results"
TOPIC_NUMBERS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target", action="append", metavar="TARGET", help="kafkapy, kafka-<version> or host:port; may be repeated"
    )
    parser.addoption("--results", type=Path, metavar="FILE", help="puts each test's result into this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    """kafka-python loads its schemas through a deprecated function, once for each message."""
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")
    for line in MARKS:
        config.addinivalue_line("markers", line)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(), RESULTS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What each target made of each test, side by side."""
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
    """Runs every test that takes `broker` on each target."""
    if "broker" in metafunc.fixturenames:
        targets = metafunc.config.getoption("--target") or ["kafkapy"]
        metafunc.parametrize("broker", targets, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs Java, and groups tests by target so that one broker runs at a time."""
    for item in items:
        if target_of(item).startswith(KAFKA):
            item.add_marker("java")
        mark_differences(item)
        mark(item)
    items.sort(key=target_of)


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker of the asked-for kind, shared by all tests of the session."""
    target: str = request.param
    with ExitStack() as stack:
        if target == "kafkapy":
            yield stack.enter_context(KafkapyProcess())
        elif target.startswith(KAFKA):
            yield stack.enter_context(RealKafka(target.removeprefix(KAFKA)))
        else:
            yield RemoteBroker(target)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test of this session uses, nor an earlier session on a broker that keeps running."""
    test = request.node.originalname if isinstance(request.node, pytest.Function) else "topic"
    return f"{test[:80]}-{os.getpid()}-{next(TOPIC_NUMBERS)}"


@pytest.fixture(scope="session", params=VERSIONS)
def tools_version(request: pytest.FixtureRequest) -> str:
    """Each Kafka release whose command-line tools are tried."""
    version: str = request.param
    try:
        find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    if not jars_directory(version).exists():
        pytest.skip(f"the jars of Kafka {version} are not here: run make jars")
    return version
