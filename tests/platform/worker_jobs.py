"""A job for the tests of the worker: it does what its arguments say."""

import os
from typing import Any

from kafkapy.platform.patience import Steps
from kafkapy.platform.worker import JobContext
from kafkapy.records.errors import CorruptRecordError


def run(arguments: dict[str, Any], context: JobContext) -> dict[str, Any] | Steps[dict[str, Any]]:
    """``say`` progress, ``wait`` until cancelled, ``refuse`` with an error number, ``blame`` a file, ``die``.

    With ``steps`` it has that many steps, and reports the scheduler's policy of each.
    """
    if "steps" in arguments:
        return _in_steps(arguments["steps"], context)
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


def _in_steps(count: int, context: JobContext) -> Steps[dict[str, Any]]:
    policies = []
    for _ in range(count):
        context.check()
        policies.append(os.sched_getscheduler(0))
        yield
    return {"policies": policies}
