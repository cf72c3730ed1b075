"""The requirements of a section's snippets: the commands of the PATH and the libraries of programs."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from compat_tests.clients.agents import HERE, check_go, node_modules
from compat_tests.pages.snippets import Section, Snippet
from harness.jars import class_path, jars_directory
from harness.java import NoJavaError, find_java
from harness.java_programs import QUICK_START, MissingToolchainError, class_archive
from harness.java_tools import JavaTools
from harness.kafkapy_process import ROOT
from harness.real_kafka import LOG4J

KAFKA = "2.7.2"
KAFKAS_SCRIPTS = re.compile(r"\b(?:kafka|zookeeper)-[a-z-]+\.sh\b")
OF_THE_CHECKOUT = re.compile(r"\bpip install \.|\.venv/")
"""Commands that a reader types in a checkout."""
INSTALLS = re.compile(r"\bpip install \.")
NOT_COPIED = (".git", ".venv", ".cache", ".*_cache", ".hypothesis", "__pycache__", "build", "out", "*.egg-info", "*.so")
COMMANDS = {
    "python": [sys.executable],
    "go": ["go", "run"],
    "javascript": ["node"],
}


def command(snippet: Snippet, path: Path) -> list[str]:
    """How a program in this file is run."""
    if snippet.language == "java":
        return [*find_java().command, str(path)]
    return [*COMMANDS[snippet.language], str(path)]


def environment(section: Section, directory: Path, before: str = "") -> dict[str, str]:
    """The environment of a section's shell; puts into the directory what the section expects there.

    Raises MissingToolchainError.
    """
    own = ("PYTEST_", "COV_", "COVERAGE_", "KAFKAPY_", "PYTHONPATH")
    found = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    path = [str(Path(sys.executable).parent), os.environ["PATH"]]
    temporary = directory / "tmp"
    temporary.mkdir()
    found |= {"TMPDIR": str(temporary), "TERM": "dumb"}
    if OF_THE_CHECKOUT.search(section.commands):
        _copy_checkout(directory)
    if INSTALLS.search(section.commands):
        path.insert(0, str(_own_environment(temporary / "venv")))
        found["PIP_NO_BUILD_ISOLATION"] = "0"  # pip's spelling of: without isolation, which would need the network
    else:
        found["PYTHONPATH"] = str(ROOT)
    if "go" in section.languages:
        _provide_go_modules(directory)
        found |= {"GOPROXY": "off", "GOFLAGS": "-mod=readonly"}
    if "javascript" in section.languages:
        found["NODE_PATH"] = str(node_modules())
    if needs_spark(section):
        found |= _where_sparks_jars_are(temporary)
    if needs_java(section, before):
        path.insert(0, str(kafkas_scripts(temporary / "kafka")))
        found["CLASSPATH"] = class_path(KAFKA)
    return {**found, "PATH": os.pathsep.join(path)}


def needs_java(section: Section, before: str = "") -> bool:
    """Whether the section runs Java or the scripts of Apache Kafka."""
    return "java" in section.languages or KAFKAS_SCRIPTS.search(section.commands + before) is not None


def needs_spark(section: Section) -> bool:
    """Whether the section starts Spark."""
    return "spark" in section.commands or any("pyspark" in each.text for each in section.snippets)


def _where_sparks_jars_are(directory: Path) -> dict[str, str]:
    """Variables with which Spark finds Java, and the packages that a session names, without the network."""
    from spark_examples.common.session import ivy_settings

    configuration = directory / "spark"
    configuration.mkdir()
    settings = ivy_settings() | {"spark.ui.showConsoleProgress": "false"}  # it would share a line with the output
    lines = "".join(f"{key} {value}\n" for key, value in settings.items())
    (configuration / "spark-defaults.conf").write_text(lines)
    try:
        return {**find_java().environment(), "SPARK_CONF_DIR": str(configuration)}
    except NoJavaError as missing:
        raise MissingToolchainError(str(missing)) from missing


def _copy_checkout(directory: Path) -> None:
    """The files of the checkout, and what `make` has installed."""
    shutil.copytree(ROOT, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
    (directory / ".venv").symlink_to(Path(sys.prefix))
    (directory / ".cache").symlink_to(ROOT / ".cache")


def _own_environment(directory: Path) -> Path:
    """The programs of a new virtual environment with the libraries of this one, but without kafkapy."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)  # its setuptools may be old
    (new,) = directory.glob("lib/python*/site-packages")
    libraries = directory / "libraries"
    libraries.mkdir()
    for each in _installed():
        (libraries / each.name).symlink_to(each)
    (new / "libraries.pth").write_text(f"{libraries}\n")
    _script(directory / "bin" / "pip", [str(directory / "bin" / "python"), "-m", "pip"])
    return directory / "bin"


def _installed() -> Iterator[Path]:
    (here,) = Path(sys.prefix).glob("lib/python*/site-packages")
    for each in here.iterdir():
        if not each.name.startswith(("kafkapy", "__editable__")):
            yield each


def _provide_go_modules(directory: Path) -> None:
    check_go("program")
    subprocess.run(["go", "mod", "download"], cwd=HERE / "go", check=True, capture_output=True, timeout=300)
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "go" / name, directory)


def kafkas_scripts(directory: Path) -> Path:
    """Apache Kafka's scripts: a folder for the PATH with programs of the same names, from the jars of 2.7.2."""
    try:
        java = find_java()
    except NoJavaError as missing:
        raise MissingToolchainError(str(missing)) from missing
    if not java.has_compiler or not jars_directory(KAFKA).exists():
        raise MissingToolchainError(f"a JDK and the jars of Kafka {KAFKA} are not here: run make jars")
    directory.mkdir(parents=True)
    logging = directory / "log4j.properties"
    logging.write_text(LOG4J.format(level="WARN", request_level="OFF"))
    archive = class_archive(KAFKA)
    options = [*QUICK_START, *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else ())]
    servers = {
        "kafka-server-start.sh": ["-Xmx384M", "kafka.Kafka"],
        "zookeeper-server-start.sh": ["-Xmx256M", "org.apache.zookeeper.server.quorum.QuorumPeerMain"],
    }
    # Linux shares a busy processor out between sessions: a service has one of its own.
    alone = ["setsid"] if shutil.which("setsid") else []
    shell = JavaTools(KAFKA).command("ZooKeeperMainWithTlsSupportForKafka", "-server")
    commands = {"zookeeper-shell.sh": shell}
    for name, (heap, main) in servers.items():
        settings = ["-Dzookeeper.forceSync=no", f"-Dlog4j.configuration=file:{logging}"]
        commands[name] = [*alone, *java.command, heap, *options, *settings, "-cp", class_path(KAFKA), main]
    for name, words in commands.items():
        _script(directory / name, words)
    return directory


def _script(path: Path, words: list[str]) -> None:
    """A program that runs a command with further arguments."""
    path.write_text(f'#!/bin/sh\nexec {" ".join(map(quoted, words))} "$@"\n')
    path.chmod(0o755)


def quoted(text: str) -> str:
    """A word for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"
