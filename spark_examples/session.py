"""A Spark session, local or on a cluster, that finds its Kafka connector, its Java and its Python by itself."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tools.java import find_java

ROOT = Path(__file__).resolve().parent.parent
IVY = ROOT / ".cache" / "ivy"
OFFLINE_JARS = "KAFKAPY_SPARK_JARS"  # a folder with the connector's jars, for machines without a network


def connector() -> str:
    """The connector's Maven coordinates for the installed PySpark: same release, same Scala."""
    library = next((Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar"))
    scala = re.sub(r"^scala-library-(\d+\.\d+)\..*$", r"\1", library.name)
    return f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{pyspark.__version__}"


# Only the central repository: a module that Maven resolved halfway on this machine would stop the resolution.
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


EXECUTOR_MEMORY = "768m"


class NoSessionError(RuntimeError):
    """Spark did not start; the message carries the end of its log."""


def open_session(name: str, log: Path, cores: int = 2, master: str | None = None) -> SparkSession:
    """Starts Spark inside this process, what its Java prints going into `log`.

    With `master`, the URL of a Spark cluster on this machine (`spark://HOST:PORT`), the driver alone is in this
    process, and `cores` are those of its executors, one each. Without it Spark is local, with so many threads. Raises
    tools.java.NoJavaError without a usable Java, NoSessionError when the connector can't be fetched or the cluster does
    not answer. Python workers would run the PATH's `python3`, not this environment's, if they weren't told.
    """
    os.environ.update(find_java().environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    IVY.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.master(master or f"local[{cores}]").appName(name)
    settings = {
        "spark.cores.max": str(cores),
        "spark.executor.cores": "1",
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.jars.ivy": str(IVY),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    offline = os.environ.get(OFFLINE_JARS)
    if offline:
        settings["spark.jars"] = ",".join(str(jar) for jar in sorted(Path(offline).glob("*.jar")))
    else:
        (IVY / "ivysettings.xml").write_text(IVY_SETTINGS)
        settings["spark.jars.packages"] = connector()
        settings["spark.jars.ivySettings"] = str(IVY / "ivysettings.xml")
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
