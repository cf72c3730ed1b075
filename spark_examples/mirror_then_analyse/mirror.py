"""`kafkapy mirror --exactly-once` and `kafkapy groups describe` as commands of processes."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_examples.common import topics

GROUP = "kafkapy-mirror"
"""The mirror keeps its positions on the source as offsets of this group on the target."""
START_TIMEOUT_S = 60
COMMAND_TIMEOUT_S = 300
KAFKAPY = (sys.executable, "-m", "kafkapy")
WITH_PARENT = """
import os, signal, sys, threading
from kafkapy.cli.main import main

def end_with_parent():
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end_with_parent, daemon=True).start()
main()
"""
"""Runs kafkapy until its standard input is closed: by the parent, or by the end of the parent, whatever ends it."""


class CommandFailedError(RuntimeError):
    """A command of kafkapy failed; the message is what it wrote."""


def _words(source: str, target: str, topic: str) -> list[str]:
    return ["mirror", "--from", source, "--to", target, "--topics", re.escape(topic), "--exactly-once"]


@contextmanager
def mirroring(source: str, target: str, topic: str, log: Path) -> Iterator[None]:
    """The mirror copies meanwhile, and is stopped then; raises CommandFailedError."""
    command = [sys.executable, "-c", WITH_PARENT, *_words(source, target, topic)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
    with process:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not topics.extents(target, topic):  # the mirror creates it
            if process.poll() is not None or time.monotonic() > deadline:
                raise CommandFailedError(f"kafkapy mirror did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.1)
        yield
        process.communicate(timeout=COMMAND_TIMEOUT_S)  # closes its standard input
    if process.returncode != 0:
        raise CommandFailedError(f"kafkapy mirror failed:\n{log.read_text(errors='replace')}")


def _kafkapy(*words: str) -> Any:
    """The answer of a command that ends by itself; raises CommandFailedError."""
    command = [*KAFKAPY, *words, "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    if run.returncode != 0:
        raise CommandFailedError(f"kafkapy {words[0]} failed:\n{run.stdout}{run.stderr}")
    return json.loads(run.stdout)


def mirror_rest(source: str, target: str, topic: str) -> int:
    """Copies what is left; how many records that were."""
    records: int = _kafkapy(*_words(source, target, topic), "--once")["records"]
    return records


def lags(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """The group's lag by partition, as `kafkapy groups describe` shows it."""
    rows = _kafkapy("groups", "describe", group, "--bootstrap", bootstrap)["offsets"]
    return {row["partition"]: row["lag"] for row in rows if row["topic"] == topic}
