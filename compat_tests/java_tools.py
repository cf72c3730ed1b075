"""Kafka's own command-line tools, run from the jars of one release."""

import subprocess
from pathlib import Path

from tools.jars import class_path
from tools.java import find_java

QUIET = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
# Tools that moved from the core's package to the tools module after 2.7.
MOVED = {
    "TopicCommand": "kafka.admin",
    "ConfigCommand": "kafka.admin",
    "ConsumerGroupCommand": "kafka.admin",
    "DeleteRecordsCommand": "kafka.admin",
    "LogDirsCommand": "kafka.admin",
    "ConsumerPerformance": "kafka.tools",
    "GetOffsetShell": "kafka.tools",
    "DumpLogSegments": "kafka.tools",
    "ConsoleConsumer": "kafka.tools",
    "ConsoleProducer": "kafka.tools",
}
LATER_PACKAGES = {
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer",
    "ConfigCommand": "kafka.admin",
    "DumpLogSegments": "kafka.tools",
}
LAST_SCALA_CONSOLE_PRODUCER = "3."


class JavaTools:
    """Runs a tool by its short name, from the package that this release keeps it in."""

    def __init__(self, version: str) -> None:
        self.version = version

    def main_class(self, tool: str) -> str:
        """The tool's class name in this release."""
        if self.version.startswith("2.") and tool in MOVED:
            return f"{MOVED[tool]}.{tool}"
        if tool == "ConsoleProducer" and self.version.startswith(LAST_SCALA_CONSOLE_PRODUCER):
            return "kafka.tools.ConsoleProducer"
        return f"{LATER_PACKAGES.get(tool, 'org.apache.kafka.tools')}.{tool}"

    def command(self, tool: str, *arguments: str, heap: str = "256M") -> list[str]:
        """The whole command line."""
        log4j = Path(__file__).with_name("log4j-tools.properties")
        java = [*find_java().command, f"-Xmx{heap}", *QUIET, f"-Dlog4j.configuration=file:{log4j}"]
        return [*java, "-cp", class_path(self.version), self.main_class(tool), *arguments]

    def run(self, tool: str, *arguments: str, text: str | None = None, timeout_s: float = 60) -> str:
        """Runs the tool with `text` as its input; returns its output, fails on a non-zero exit code."""
        run = subprocess.run(
            self.command(tool, *arguments), input=text, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert run.returncode == 0, (
            f"{tool} {' '.join(arguments)} ended with {run.returncode}:\n{run.stdout}{run.stderr}"
        )
        return run.stdout

    def fails(self, tool: str, *arguments: str, timeout_s: float = 60) -> str:
        """Runs a tool that should report an error; returns everything it said."""
        run = subprocess.run(
            self.command(tool, *arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return run.stdout + run.stderr
