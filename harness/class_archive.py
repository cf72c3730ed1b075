"""Keeps the classes that a Kafka broker loads in the JVM's own form: each of a run's many brokers starts sooner.

`python -m harness.class_archive [VERSION…]` makes missing archives, in some seconds each. Nothing depends on them:
a broker without an archive, or with one of another Java, loads its classes from the jars.
"""

import os
import sys
from pathlib import Path

from harness.jars import VERSIONS, jars_directory
from harness.java_programs import BUILT, QUICK_START, class_archive
from harness.real_kafka import RealKafka


def make(version: str) -> Path:
    """Makes the archive of a release from the classes that a broker loads when it starts and stops."""
    archive = class_archive(version)
    if not archive.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        scratch = archive.with_suffix(f".{os.getpid()}")  # another run may make the same archive
        with RealKafka(version, jvm=(*QUICK_START, f"-XX:ArchiveClassesAtExit={scratch}")) as broker:
            broker.stop()  # it writes the archive when it ends
        scratch.rename(archive)
    return archive


if __name__ == "__main__":
    for each in sys.argv[1:] or VERSIONS:
        if jars_directory(each).exists():
            make(each)
