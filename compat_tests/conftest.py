"""The brokers under test: `--target kafkapy` (the default), `kafka-2.7.2`, `-3.9.1`, `-4.1.0`, or `host:port`."""

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from compat_tests.kafkapy_process import KafkapyProcess
from compat_tests.process import Broker
from compat_tests.real_kafka import RealKafka
from compat_tests.remote import RemoteBroker
from tools.jars import VERSIONS, jars_directory
from tools.java import NoJavaError, find_java

KAFKA = "kafka-"
TOPIC_NUMBERS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target", action="append", metavar="TARGET", help="kafkapy, kafka-<version> or host:port; may be repeated"
    )


def pytest_configure(config: pytest.Config) -> None:
    """kafka-python loads its schemas through a deprecated function, once for each message."""
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs every test that takes `broker` on each target."""
    if "broker" in metafunc.fixturenames:
        targets = metafunc.config.getoption("--target") or ["kafkapy"]
        metafunc.parametrize("broker", targets, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs Java, and groups tests by target so that one broker runs at a time."""
    for item in items:
        target = _target_of(item)
        if target.startswith(KAFKA):
            item.add_marker("java")
    items.sort(key=_target_of)


def _target_of(item: pytest.Item) -> str:
    call = getattr(item, "callspec", None)
    return str(call.params.get("broker", "")) if call is not None else ""


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
