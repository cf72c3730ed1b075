"""The worker process, which reads and writes record files for a broker: compaction and recovery.

``python -m kafkapy.platform.worker`` reads JSON objects, one per line, from its standard input and answers on its
standard output; ``worker_pool`` is the other end. The process ends when its input ends, so it ends with the broker,
also if that is killed.

    to the worker    {"id": 1, "job": "kafkapy.storage.…", "arguments": {…}}     {"cancel": 1}
    from the worker  {"id": 1, "progress": {…}}, any number of times, then one of
                     {"id": 1, "result": {…}}   {"id": 1, "cancelled": true}
                     {"id": 1, "error": "a sentence", "errno": 28 or null}

A job is a module with ``run(arguments, context) -> result``; arguments and result are small. A background job returns
``Steps`` that end with the result; ``patience`` runs them on idle processors. Errors of the system (``OSError``) and of
a file's content (``BrokerError``) are sent as an answer. Any other exception is a bug: it ends the process with a
traceback on the standard error, and the broker notices the end.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from importlib import import_module
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, BinaryIO

from kafkapy.errors import BrokerError
from kafkapy.platform import portable
from kafkapy.platform.patience import IdleRunner, Steps

Message = dict[str, Any]


class JobCancelledError(Exception):
    """The broker has cancelled the job; a job removes its unfinished files and does not catch this error."""


class JobContext:
    """The calls of a running job to the broker."""

    def __init__(self, job_id: int, output: "Output") -> None:
        self.job_id = job_id
        self.cancelled = Event()
        self._output = output

    def progress(self, facts: Message) -> None:
        """Send the broker a message about the job's progress, or about a part that is done."""
        self._output.send({"id": self.job_id, "progress": facts})

    def check(self) -> None:
        """Raise ``JobCancelledError`` if the broker has cancelled the job; to be called every few milliseconds."""
        if self.cancelled.is_set():
            raise JobCancelledError

    def wait(self, seconds: float) -> None:
        """Do nothing for a while; a cancellation ends it, as in ``check``."""
        self.cancelled.wait(seconds)
        self.check()


class Output:
    """Writes lines for the broker; ``end`` is called when the broker has ended: its files must not be changed then."""

    def __init__(self, stream: BinaryIO, end: Callable[[int], object] = os._exit) -> None:
        self._stream = stream
        self._end = end
        self._lock = Lock()

    def send(self, message: Message) -> None:
        """Write one message."""
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except BrokenPipeError:
                self._end(0)


class Inbox:
    """Jobs in the order of their arrival; cancellations reach running and waiting ones."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._contexts: dict[int, JobContext] = {}
        self._jobs: SimpleQueue[tuple[str, Message, JobContext] | None] = SimpleQueue()
        self._runner = IdleRunner()

    def read(self, lines: BinaryIO) -> None:
        """Read messages until the input ends."""
        for line in lines:
            message = json.loads(line)
            if "cancel" in message:
                context = self._contexts.get(message["cancel"])
                if context is not None:
                    context.cancelled.set()
            else:
                context = self._contexts[message["id"]] = JobContext(message["id"], self._output)
                self._jobs.put((message["job"], message["arguments"], context))
        self._jobs.put(None)

    def work(self) -> None:
        """Run the jobs until the input has ended."""
        while (job := self._jobs.get()) is not None:
            name, arguments, context = job
            self._output.send({"id": context.job_id, **outcome(name, arguments, context, self._runner)})
            del self._contexts[context.job_id]


def outcome(name: str, arguments: Message, context: JobContext, runner: IdleRunner) -> Message:
    """Run a job; return how it ended, as a message without its id."""
    try:
        context.check()
        done: Mapping[str, Any] | Steps[Mapping[str, Any]] = import_module(name).run(arguments, context)
        result = runner.run(done) if isinstance(done, Generator) else done
    except JobCancelledError:
        return {"cancelled": True}
    except BrokerError as error:
        return {"error": str(error), "errno": None}
    except OSError as error:
        return {"error": str(error), "errno": error.errno}
    return {"result": dict(result)}


def serve(lines: BinaryIO, answers: BinaryIO, end: Callable[[int], object] = os._exit) -> None:
    """Run the jobs that ``lines`` request; ``end`` is called as soon as the lines end."""
    inbox = Inbox(Output(answers))

    def read_to_the_end() -> None:
        inbox.read(lines)
        end(0)  # also during a job: without its broker a worker must not touch files

    Thread(target=read_to_the_end, daemon=True).start()
    inbox.work()


def main() -> None:
    """Serve a broker. The first argument is the process's niceness (see ``nice(1)``)."""
    for number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):  # Windows has no SIGHUP
        signal.signal(number, signal.SIG_IGN)  # a terminal sends it to the whole group; the broker ends the worker
    portable.be_nice(int(sys.argv[1]))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of print() must not look like a message …
    sys.stdout = sys.stderr  # … nor stay in a buffer: the process ends at once
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
