"""Fetches Apache Kafka itself, as Maven jars, into `.cache/jars/kafka-<version>/`, one flat folder a version.

`python -m harness.jars [VERSION…]` takes the versions that the tests and the comparison use when none is named: those
whose brokers run beside ours, and older ones whose clients must go on working. Maven does the work where it is
installed; otherwise the Ivy that PySpark bundles does. A folder appears only when it is complete, so a run that was
cut off leaves nothing half-made behind.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.java import NoJavaError, find_java

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
VERSIONS = ("2.7.2", "3.9.1", "4.4.0")
BENCH_VERSIONS = (VERSIONS[0], VERSIONS[-1])
"""The releases that `bench` compares with: the oldest and the newest."""
OLD_CLIENT_VERSIONS = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2")
"""Releases whose clients write and read message sets of format 0 (up to 0.9) and 1 (0.10)."""
STREAMS = "streams-{}"
"""Not a broker: Kafka Streams of a release, which reads, processes and writes exactly once."""
STREAMS_VERSIONS = (VERSIONS[0], VERSIONS[-1])
CONNECT = "connect-{}"
"""Not a broker either: Kafka Connect with its file connectors, and MirrorMaker 2, which is made of it, of a release."""
CONNECT_VERSIONS = ("2.7.2", "3.9.1", "4.3.1")
"""The last is the newest whose file connectors and MirrorMaker can be fetched: those of 4.4.0 are not everywhere."""
HDFS = "hdfs-3.4.2"
"""Nothing of Kafka: a small HDFS for Spark's results, of the Hadoop that PySpark 4.1 has."""
ALL_VERSIONS = (
    *VERSIONS,
    *OLD_CLIENT_VERSIONS,
    *map(STREAMS.format, STREAMS_VERSIONS),
    CONNECT.format(CONNECT_VERSIONS[0]),
)
LONG_VERSIONS = (*map(CONNECT.format, CONNECT_VERSIONS[1:]), HDFS)
"""Artifacts that only tests marked `long` need."""
BESIDE_THE_BROKER = {
    "streams": ("kafka-streams",),
    "connect": ("connect-runtime", "connect-file", "connect-mirror"),
    "hdfs": ("hadoop-client-minicluster",),
}
"""Programs with their own jars, and the artifacts of each, the main one first."""
SLF4J = "1.7.36"
GROUP = "org.apache.kafka"
HADOOP = "org.apache.hadoop"


class JarsError(Exception):
    """The jars could not be fetched; the message is one line that says why."""


def jars_directory(version: str) -> Path:
    """Where the jars of one Kafka version are, or will be."""
    return CACHE / "jars" / f"kafka-{version}"


def class_path(version: str) -> str:
    """The class path of one Kafka version; raises JarsError when it was not fetched.

    2.7.2 logs through log4j 1.2, which its own dependencies bring; a second SLF4J binding beside it would win or lose
    by the order of a directory listing.
    """
    directory = jars_directory(version)
    jars = sorted(directory.glob("*.jar"))
    if not jars:
        raise JarsError(f"no jars in {directory}: run `python -m harness.jars {version}`")
    if any(jar.name.startswith("slf4j-log4j12") for jar in jars):
        jars = [jar for jar in jars if not jar.name.startswith("slf4j-simple")]
    return ":".join(map(str, jars))


def main_artifact(version: str) -> str:
    """The artifact that holds the broker and, in old releases, the Scala clients; it is named after its Scala."""
    beside = BESIDE_THE_BROKER.get(version.partition("-")[0])
    if beside is not None:
        return beside[0]
    return "kafka_2.11" if version.startswith("0.") else "kafka_2.13"


def dependencies(version: str) -> list[tuple[str, str, str]]:
    """Group, artifact and version of what to resolve; everything else follows from these."""
    kind, _, release = version.rpartition("-")
    if kind:
        listed = [(HADOOP if version == HDFS else GROUP, artifact, release) for artifact in BESIDE_THE_BROKER[kind]]
        return listed if kind != "streams" else [*listed, ("org.slf4j", "slf4j-simple", SLF4J)]
    if version.startswith("0."):
        return [(GROUP, main_artifact(version), version)]
    wanted = [(GROUP, main_artifact(version), version), (GROUP, "kafka-tools", version)]
    return wanted if version.startswith("2.") else [*wanted, ("org.slf4j", "slf4j-simple", SLF4J)]


def pom(version: str) -> str:
    """A Maven project whose only content is the dependencies."""
    listed = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{number}</version></dependency>"
        for group, artifact, number in dependencies(version)
    )
    return (
        f"<project><modelVersion>4.0.0</modelVersion><groupId>kafkapy</groupId><artifactId>kafka-{version}</artifactId>"
        f"<version>1</version><dependencies>{listed}</dependencies></project>\n"
    )


def ivy_module(version: str) -> str:
    """The same as an Ivy module: compile and run-time dependencies, without documentation or sources."""
    listed = "".join(
        f'<dependency org="{group}" name="{artifact}" rev="{number}" conf="default->compile,runtime,master"/>'
        for group, artifact, number in dependencies(version)
    )
    return (
        f'<ivy-module version="2.0"><info organisation="kafkapy" module="kafka-{version}"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{listed}</dependencies></ivy-module>\n'
    )


IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


def fetch_with_maven(version: str, target: Path, work: Path) -> None:
    """Copies the jars into `target` with the `mvn` on the PATH."""
    (work / "pom.xml").write_text(pom(version))
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(work / "pom.xml"),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={target}",
    ]
    _run([*command, "-DincludeScope=runtime"], "Maven")


def fetch_with_ivy(version: str, target: Path, work: Path) -> None:
    """Copies the jars into `target` with PySpark's Ivy, its downloads kept under `.cache/ivy-kafka`."""
    (work / "ivy.xml").write_text(ivy_module(version))
    (work / "ivysettings.xml").write_text(IVY_SETTINGS)
    command = [*find_java().command, "-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-warn"]
    command += [
        "-settings",
        str(work / "ivysettings.xml"),
        "-ivy",
        str(work / "ivy.xml"),
        "-cache",
        str(CACHE / "ivy-kafka"),
    ]
    command += [
        "-types",
        "jar",
        "bundle",
        "maven-plugin",
        "-retrieve",
        f"{target}/[artifact]-[revision](-[classifier]).[ext]",
    ]
    _run(command, "Ivy")


def _ivy_jar() -> Path:
    """PySpark's bundled Ivy, found without importing PySpark."""
    for folder in map(Path, sys.path):
        for jar in sorted(folder.glob("pyspark/jars/ivy-*.jar")):
            return jar
    raise JarsError("neither Maven (mvn) nor PySpark's Ivy is there: install one, for example with pip install pyspark")


def _run(command: list[str], what: str) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise JarsError(f"{what} failed ({_reason(run.stdout + run.stderr)}); is the network there?")


def _reason(output: str) -> str:
    """The line of a resolver's output that names the trouble."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [
        line
        for line in lines
        if any(word in line.lower() for word in ("error", "unresolved", "not found", "exception"))
    ]
    return (telling or lines or ["no output"])[0][:300]


def fetchers() -> dict[str, Callable[[str, Path, Path], None]]:
    """The ways to fetch that exist here, the preferred one first."""
    ways: dict[str, Callable[[str, Path, Path], None]] = {"ivy": fetch_with_ivy}
    return {"maven": fetch_with_maven, **ways} if shutil.which("mvn") else ways


def fetch(version: str, way: str | None = None) -> Path:
    """Makes sure that the jars of `version` are cached, and returns their folder."""
    target = jars_directory(version)
    main_jar = f"{main_artifact(version)}-{version.rpartition('-')[2]}.jar"
    if (target / main_jar).is_file():
        return target
    ways = fetchers()
    chosen = ways.get(way) if way else next(iter(ways.values()))
    if chosen is None:
        raise JarsError(f"{way} is not installed here")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"kafka-{version}-", dir=target.parent) as scratch:
        libraries = Path(scratch) / "libs"
        libraries.mkdir()
        chosen(version, libraries, Path(scratch))
        if not (libraries / main_jar).is_file():
            raise JarsError(f"Kafka {version} was resolved, but its main jar did not arrive")
        shutil.rmtree(target, ignore_errors=True)
        libraries.rename(target)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=ALL_VERSIONS, help=f"default: {' '.join(ALL_VERSIONS)}")
    parser.add_argument("--long", action="store_true", help=f"those of long tests too: {' '.join(LONG_VERSIONS)}")
    parser.add_argument(
        "--with", dest="way", choices=["maven", "ivy"], help="default: Maven if it is installed, else Ivy"
    )
    arguments = parser.parse_args()
    try:
        for version in (*arguments.versions, *(LONG_VERSIONS if arguments.long else ())):
            directory = fetch(version, arguments.way)
            print(f"Kafka {version}: {len(list(directory.glob('*.jar')))} jars in {directory}", flush=True)
    except (JarsError, NoJavaError, OSError) as error:
        print(f"jars: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
