"""The machine on which the numbers were measured, without anything that identifies its owner."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import confluent_kafka

from harness.java import find_java
from harness.kafkapy_process import ROOT
from kafkapy import __version__
from kafkapy.records.scanner import scan_is_compiled


def describe() -> dict[str, str]:
    """Processor, memory and versions, each a line for people.

    Of the interpreter who built it, and when: the same release can be faster by a sixth, or slower, by how it was
    compiled.
    """
    return {
        "processor": f"{os.cpu_count()} × {_processor()}",
        "memory": f"{memory_size() / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {' '.join(sys.version.split())}",
        "java": _java(),
        "librdkafka": confluent_kafka.libversion()[0],
        "kafkapy": f"{__version__}, {_commit()}, record scan {'compiled' if scan_is_compiled() else 'interpreted'}",
        "load average before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def memory_size() -> int:
    """Bytes of memory that the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _java() -> str:
    run = subprocess.run([*find_java().command, "-version"], capture_output=True, text=True, check=True)
    return next(line for line in run.stderr.splitlines() if "version" in line).replace('"', "")


def _commit() -> str:
    try:
        run = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True, cwd=ROOT
        )
    except (OSError, subprocess.CalledProcessError):
        return "no commit known"
    return f"commit {run.stdout.strip()}"
