"""The tests' own Java programs: compiled once for each class path, kept in `.cache`, and started quickly."""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.jars import CACHE, class_path, jars_directory
from harness.java import NoJavaError, find_java

BUILT = CACHE / "clients"
LOG4J = Path(__file__).with_name("log4j-tools.properties")
QUICK_START = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
"""A JVM that runs for seconds gains nothing from the options for a JVM that runs for days."""
QUIET = [f"-Dlog4j.configuration=file:{LOG4J}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]


def class_archive(version: str) -> Path:
    """Where the archive of a broker's classes is, if `harness.class_archive` has made one for this Java."""
    java = find_java()
    made_for = f"{java.home} {java.version} {class_path(version)}"
    return BUILT / f"broker-{version}-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.jsa"


class MissingToolchainError(Exception):
    """This machine can't build or run a client; the message says what is missing."""


def java_command(main: str, sources: Sequence[Path], version: str, *, heap: str = "256M", more: str = "") -> list[str]:
    """The command that runs the program against the jars of a release, and `more` of a class path.

    Raises MissingToolchainError.
    """
    try:
        java = find_java()
    except NoJavaError as missing:
        raise MissingToolchainError(str(missing)) from missing
    if not java.has_compiler:
        raise MissingToolchainError(f"{main} for Kafka {version} wants a JDK: {java.home} has no compiler")
    if not jars_directory(version).exists():
        raise MissingToolchainError(f"the jars of Kafka {version} are not here: run make jars")
    path = ":".join(filter(None, (class_path(version), more)))
    classes = _compiled(main, sources, path, str(java.home / "bin" / "javac"))
    return [*java.command, f"-Xmx{heap}", *QUICK_START, *QUIET, "-cp", f"{path}:{classes}", main]


def _compiled(main: str, sources: Sequence[Path], path: str, compiler: str) -> Path:
    """The folder of the classes, which several processes may want at once."""
    digest = hashlib.sha256(f"{compiler}{path}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    target = BUILT / f"{main}-{digest.hexdigest()[:16]}"
    if not target.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=BUILT))
        command = [compiler, "-nowarn", "-cp", path, "-d", str(scratch), *map(str, sources)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0, f"{main} does not compile:\n{run.stdout}{run.stderr}"
        try:
            scratch.rename(target)
        except OSError:  # somebody else was quicker
            shutil.rmtree(scratch)
    return target
