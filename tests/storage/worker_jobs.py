"""A job for the tests of the worker: it does what its arguments say."""

import os
from typing import Any

from kafkapy.records.errors import CorruptRecordError
from kafkapy.storage.worker import JobContext


def run(arguments: dict[str, Any], context: JobContext) -> dict[str, Any]:
    """``say`` progress, ``wait`` until cancelled, ``refuse`` with an error number, ``blame`` a file, ``die``."""
    for facts in arguments.get("say", []):
        context.progress(facts)
    if "print" in arguments:
        print(arguments["print"])
    if "wait" in arguments:
        context.progress({"waiting": True})
        context.wait(arguments["wait"])
    if "refuse" in arguments:
        raise OSError(arguments["refuse"], "refused")
    if "blame" in arguments:
        raise CorruptRecordError(arguments["blame"])
    if "die" in arguments:
        os._exit(arguments["die"])
    return {"pid": os.getpid(), "nice": os.nice(0), "echo": arguments.get("echo")}
