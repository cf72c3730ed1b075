"""Kafka's own command-line tools, run from the jars of one release, a JVM for each call."""

import subprocess

from harness.jars import class_path
from harness.java import find_java
from harness.java_programs import QUIET

# The package that each release keeps a tool in, where it isn't the tools module's own.
SCALA_TOOLS = {
    "2": {
        "kafka.admin": "TopicCommand ConfigCommand ConsumerGroupCommand DeleteRecordsCommand LogDirsCommand "
        "BrokerApiVersionsCommand ReassignPartitionsCommand LeaderElectionCommand DelegationTokenCommand",
        "kafka.tools": "ConsumerPerformance GetOffsetShell DumpLogSegments ConsoleConsumer ConsoleProducer",
        "org.apache.zookeeper": "ZooKeeperMainWithTlsSupportForKafka",
    },
    "3": {"kafka.admin": "ConfigCommand BrokerApiVersionsCommand", "kafka.tools": "DumpLogSegments ConsoleProducer"},
    "4": {},
}
DEEPER = {"ConsumerGroupCommand": "consumer.group.", "ConsoleConsumer": "consumer."}


def main_class(version: str, tool: str) -> str:
    """The full name of a tool's class in this release."""
    for package, names in SCALA_TOOLS[version[0]].items():
        if tool in names.split():
            return f"{package}.{tool}"
    return f"org.apache.kafka.tools.{DEEPER.get(tool, '')}{tool}"


class JavaTools:
    """Runs a tool by its short name, from the package that this release keeps it in."""

    def __init__(self, version: str) -> None:
        self.version = version

    def command(self, tool: str, *arguments: str, heap: str = "256M") -> list[str]:
        """The whole command line."""
        java = [*find_java().command, f"-Xmx{heap}", *QUIET, "-cp", class_path(self.version)]
        return [*java, main_class(self.version, tool), *arguments]

    def run(self, tool: str, *arguments: str, text: str | None = None, timeout_s: float = 60) -> str:
        """Runs the tool with `text` as its input; returns its output, fails on a non-zero exit code."""
        run = subprocess.run(
            self.command(tool, *arguments), input=text, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert run.returncode == 0, (
            f"{tool} {' '.join(arguments)} ended with {run.returncode}:\n{run.stdout}{run.stderr}"
        )
        return run.stdout
