"""A Spark session, local or on a cluster, that finds its Kafka connector, its Java and its Python by itself."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from harness.java import find_java

ROOT = Path(__file__).resolve().parents[2]
IVY = ROOT / ".cache" / "ivy"
OFFLINE_JARS = "KAFKAPY_SPARK_JARS"  # a folder with the jars that Ivy would fetch, for machines without a network
ICEBERG_VERSION = "1.11.0"
ICEBERG_SPARKS = ("3.5", "4.0", "4.1")
"""The minor releases of Spark that this version of Iceberg has a runtime for."""
LAKE = "lake"
"""Iceberg's catalog in a session that has one: the table `lake.flights` is the folder `flights` of its directory."""


def _scala() -> str:
    library = next((Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar"))
    return re.sub(r"^scala-library-(\d+\.\d+)\..*$", r"\1", library.name)


def connector() -> str:
    """The connector's Maven coordinates for the installed PySpark: same release, same Scala."""
    return f"org.apache.spark:spark-sql-kafka-0-10_{_scala()}:{pyspark.__version__}"


def _minor() -> str:
    return ".".join(pyspark.__version__.split(".")[:2])


def iceberg() -> str:
    """The coordinates of Iceberg, one jar, for the installed PySpark: same minor release, same Scala.

    Raises NoSessionError if there is none.
    """
    if _minor() not in ICEBERG_SPARKS:
        raise NoSessionError(
            f"Iceberg {ICEBERG_VERSION} has no runtime for PySpark {pyspark.__version__}, which is installed: "
            f"what needs Iceberg runs with PySpark {ICEBERG_SPARKS[-1]}, in an environment of its own."
        )
    return f"org.apache.iceberg:iceberg-spark-runtime-{_minor()}_{_scala()}:{ICEBERG_VERSION}"


# Only the central repository: a module that Maven resolved halfway on this machine would stop the resolution.
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


EXECUTOR_MEMORY = "768m"


class NoSessionError(RuntimeError):
    """Spark did not start; the message carries the end of its log."""


def ivy_settings() -> dict[str, str]:
    """The directory of the jars that Spark fetches, and the repository that they come from."""
    IVY.mkdir(parents=True, exist_ok=True)
    (IVY / "ivysettings.xml").write_text(IVY_SETTINGS)
    return {"spark.jars.ivy": str(IVY), "spark.jars.ivySettings": str(IVY / "ivysettings.xml")}


def jar_settings(lake: Path | None = None) -> dict[str, str]:
    """Where Spark's additional jars come from; Iceberg's only if it is needed."""
    offline = os.environ.get(OFFLINE_JARS)
    if not offline:
        packages = [connector(), iceberg()] if lake else [connector()]
        return {"spark.jars.packages": ",".join(packages), **ivy_settings()}
    jars = sorted(Path(offline).glob("*.jar"))
    for coordinates in (connector(), iceberg()) if lake else (connector(),):
        name = "-".join(coordinates.split(":")[1:])
        if not any(jar.name.endswith(f"{name}.jar") for jar in jars):
            raise NoSessionError(f"The folder of {OFFLINE_JARS}, {offline}, lacks the jar of {coordinates}.")
    return {"spark.jars": ",".join(map(str, jars))}


def _lake_settings(lake: Path) -> dict[str, str]:
    """Iceberg's SQL, and its catalog in a directory, without a server."""
    return {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{LAKE}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{LAKE}.type": "hadoop",
        f"spark.sql.catalog.{LAKE}.cache-enabled": "false",  # what other processes commit is seen at once
        f"spark.sql.catalog.{LAKE}.warehouse": str(lake.absolute()),
    }


def open_session(
    name: str, log: Path, cores: int = 2, master: str | None = None, lake: Path | None = None
) -> SparkSession:
    """Starts Spark inside this process, what its Java prints going into `log`.

    With `master`, the URL of a Spark cluster on this machine (`spark://HOST:PORT`), the driver alone is in this
    process, and `cores` are those of its executors, one each. Without it Spark is local, with so many threads. With
    `lake`, a directory, Iceberg is there, and keeps the tables of its catalog LAKE in it. Raises
    harness.java.NoJavaError without a usable Java, NoSessionError when a jar can't be had or the cluster does not
    answer.
    Python workers would run the PATH's `python3`, not this environment's, if they weren't told.
    """
    os.environ.update(find_java().environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master or f"local[{cores}]").appName(name)
    settings = {
        "spark.cores.max": str(cores),
        "spark.executor.cores": "1",
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.executorEnv.PYTHONPATH": str(ROOT),  # what a pipeline's Python functions import
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    settings |= jar_settings(lake)
    if lake:
        settings |= _lake_settings(lake)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _child_output(log):
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        lines = log.read_text(errors="replace").splitlines()[-15:]
        raise NoSessionError("Spark did not start:\n" + "\n".join(lines)) from error


@contextmanager
def _child_output(log: Path) -> Iterator[None]:
    """Child processes started meanwhile write into `log`: Spark's Java keeps the descriptors that it is born with."""
    saved = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
    sys.stdout.flush()
    with log.open("wb") as output:
        for descriptor, _ in saved:
            os.dup2(output.fileno(), descriptor)
    try:
        yield
    finally:
        for descriptor, original in saved:
            os.dup2(original, descriptor)
            os.close(original)


def fetch_jars() -> None:
    """Fetch the jars of the connector and of Iceberg, as the first session would, unless they are there already.

    Iceberg's only where it has one for the installed PySpark.
    """
    has_iceberg = _minor() in ICEBERG_SPARKS
    wanted = (connector(), iceberg()) if has_iceberg else (connector(),)
    names = ["-".join(coordinates.split(":")[1:]) for coordinates in wanted]
    if os.environ.get(OFFLINE_JARS) or all(any(IVY.glob(f"jars/*{name}.jar")) for name in names):
        return
    print(f"Fetching {', '.join(names)} and the jars that they need", flush=True)
    with TemporaryDirectory() as directory:
        lake = Path(directory) if has_iceberg else None
        open_session("fetch", Path(directory) / "spark.log", lake=lake).stop()


if __name__ == "__main__":
    fetch_jars()
