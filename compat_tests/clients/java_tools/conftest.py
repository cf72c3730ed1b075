"""The tools of each Kafka release, one JVM a release, and what the tests ask of them."""

import re
from collections.abc import Callable

import pytest

from compat_tests.brokers.topics import wait_for_leaders
from compat_tests.clients.java_tools.tools import Said, Tools
from harness.process import Broker

AFTERWARDS = "test_afterwards.py"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need Java; those that read a broker's whole data directory are the last ones of that broker."""
    for item in items:
        if item.path.parent.name == "java_tools":
            item.add_marker("java")
    targets = list(dict.fromkeys(_target(item) for item in items))
    items.sort(key=lambda item: (targets.index(_target(item)), item.path.name == AFTERWARDS))


def _target(item: pytest.Item) -> object:
    call = getattr(item, "callspec", None)
    return call.params.get("broker") if call is not None else None


class BrokerTools:
    """One release's tools, pointed at the broker under test."""

    def __init__(self, tools: Tools, bootstrap: str) -> None:
        self.tools = tools
        self.bootstrap = bootstrap
        self.version = tools.version
        self.brokers = len(bootstrap.split(","))
        self.in_sync_needed = min(self.brokers, 2)
        """The broker's own min.insync.replicas."""

    def attempt(self, tool: str, *arguments: str, text: str = "") -> Said:
        """Runs the tool against the broker, with any exit code."""
        return self.tools.attempt(tool, "--bootstrap-server", self.bootstrap, *arguments, text=text)

    def run(self, tool: str, *arguments: str, text: str = "") -> str:
        """Runs the tool against the broker; returns its output."""
        return self.tools.run(tool, "--bootstrap-server", self.bootstrap, *arguments, text=text)

    def by_older_name(self, tool: str, *arguments: str) -> str:
        """The same for tools whose 2.7 knows the broker only as --broker-list."""
        option = "--broker-list" if self.version.startswith("2.") else "--bootstrap-server"
        return self.tools.run(tool, option, self.bootstrap, *arguments)

    def create(self, topic: str, partitions: int = 1, *arguments: str) -> None:
        """Creates a topic."""
        out = self.run("TopicCommand", "--create", "--topic", topic, "--partitions", f"{partitions}", *arguments)
        assert f"Created topic {topic}." in out
        wait_for_leaders(self.bootstrap, topic, partitions)

    def fill(self, topic: str, values: list[str]) -> None:
        """Produces the values with the console producer, and waits until every replica has them."""
        text = "".join(f"{value}\n" for value in values)
        self.run("ConsoleProducer", "--topic", topic, "--request-required-acks", "all", text=text)

    def shown(self, **properties: str) -> list[str]:
        """The options that tell the console consumer what to print, named otherwise in releases from 4.2 on (KIP-1147)."""
        option = "--formatter-property" if self.version.startswith("4.") else "--property"
        return [word for name, value in properties.items() for word in (option, f"{name.replace('_', '.')}={value}")]

    def consume(self, topic: str, count: int, *arguments: str) -> list[str]:
        """The lines that the console consumer prints."""
        limits = ["--max-messages", f"{count}", "--timeout-ms", "20000"]
        return self.run("ConsoleConsumer", "--topic", topic, *limits, *arguments).splitlines()

    def broker_id(self) -> str:
        """The id of the (first) broker."""
        found = re.search(r"\(id: (\d+) rack", self.run("BrokerApiVersionsCommand"))
        assert found is not None
        return found[1]


@pytest.fixture
def tools(tools_version: str, tools_of: Callable[[str], Tools], broker: Broker) -> BrokerTools:
    """The tools of one release."""
    return BrokerTools(tools_of(tools_version), broker.bootstrap)
