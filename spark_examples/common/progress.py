"""The progress of streaming queries, of every micro-batch: Spark itself keeps that of the last 100 of a query."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

EVENTS_TIMEOUT_S = 30.0
LONGEST_CAUSE = 400
DATA_LOSS_MARKS = ("KAFKA_DATA_LOSS", "failOnDataLoss", "UnknownTopicOrPartition", "OffsetOutOfRange")
"""What Spark's message, or the cause in it, contains when offsets that the checkpoint names are not in the topic."""
RESTART_MARK = "scala.collection.IterableOps.map(scala.Function1)"
"""In Spark 4.1 (SPARK-55271) a query fails with this after the first micro-batch of a restart, if it is a repeated one.

The micro-batch is complete, and committed.
"""
BUSY_MARK = "Python worker failed to connect back"
"""Spark waits ten seconds for the Python of a `transformWithState` to start; no setting changes that."""
FULL_MARKS = ("No space left on device", "Disk quota exceeded")


class DataLossError(RuntimeError):
    """Offsets that the query should have read are gone; the message names the option that decides."""


class FullDiskError(RuntimeError):
    """A result or a checkpoint could not be written."""


class StartAgainError(RuntimeError):
    """The query ended by a fault of Spark that the next start passes."""


class LateRowsError(RuntimeError):
    """Rows were behind the watermark and were dropped, so the result is not exact."""


@dataclass
class Batch:
    """A micro-batch that read something."""

    time: str
    """When it began, in UTC, as Spark's progress has it."""
    rows: int
    seconds: float
    rows_behind: int
    """Offsets that the topics held beyond those of this batch when it began."""


@dataclass
class Totals:
    """What one run of a query did."""

    rows: int = 0
    late: int = 0
    """Rows behind the watermark; of a window's rows, what Spark's partial aggregation has left of them."""
    batches: list[Batch] = field(default_factory=list)
    reached: dict[str, dict[int, int]] = field(default_factory=dict)
    """By topic and partition, the offset after the last one that was read."""


class Progress(StreamingQueryListener):
    """Sums up the micro-batches of all queries of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._totals: dict[str, Totals] = defaultdict(Totals)
        self._ended: dict[str, threading.Event] = defaultdict(threading.Event)
        spark.streams.addListener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing: totals begin with the first micro-batch."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing: a micro-batch without rows changes no totals."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Adds a micro-batch."""
        done, totals = event.progress, self._totals[str(event.progress.runId)]
        totals.rows += done.numInputRows
        totals.late += sum(operator.numRowsDroppedByWatermark for operator in done.stateOperators)
        behind = 0
        for source in done.sources:
            ends, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
            totals.reached.update(ends)
            behind += sum(
                offset - ends.get(topic, {}).get(partition, 0)
                for topic, partitions in latest.items()
                for partition, offset in partitions.items()
            )
        if done.numInputRows:
            seconds = done.durationMs.get("triggerExecution", 0) / 1000
            totals.batches.append(Batch(done.timestamp, done.numInputRows, seconds, behind))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The query's totals are complete."""
        self._ended[str(event.runId)].set()

    def finish(self, queries: Iterable[StreamingQuery]) -> list[Totals]:
        """Waits until queries that end by themselves have ended; what each did.

        Raises DataLossError, FullDiskError, or RuntimeError with Spark's message, if a query failed.
        """
        finished = []
        for query in queries:
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                raise explained(error) from error
            finished.append(self._of_ended(query))
        return finished

    def stop(self, query: StreamingQuery) -> Totals:
        """Stops a query as soon as it has read what its topics hold now; what it did. Raises as `finish`."""
        catch_up(query)
        query.stop()
        return self._of_ended(query)

    def _of_ended(self, query: StreamingQuery) -> Totals:
        run_id = str(query.runId)
        if not self._ended[run_id].wait(EVENTS_TIMEOUT_S):
            raise RuntimeError(f"Spark did not report the end of the query {query.name}.")
        return self._totals[run_id]


def _offsets(text: str | None) -> dict[str, dict[int, int]]:
    """By topic and partition, of the JSON in which Spark's Kafka source reports offsets."""
    topics = json.loads("null" if text in (None, "", "None") else text) or {}
    return {topic: {int(partition): end for partition, end in ends.items()} for topic, ends in topics.items()}


def catch_up(query: StreamingQuery) -> None:
    """Waits until the query has processed what its topics hold; raises as `Progress.finish`."""
    try:
        query.processAllAvailable()
    except StreamingQueryException as error:
        raise explained(error) from error


def check_none_late(totals: Iterable[Totals], watermark: str) -> None:
    """Raises LateRowsError if any row was dropped."""
    late = sum(each.late for each in totals)
    if late:
        raise LateRowsError(
            f"{late} rows were more than {watermark} late and were dropped. --watermark decides how late a row may be."
        )


def explained(error: StreamingQueryException) -> RuntimeError:
    """The error with what to do about it, where that is known; else with Spark's own message."""
    text, told = str(error), shortened(str(error))
    if any(mark in text for mark in FULL_MARKS):
        return FullDiskError(
            f"The disk of --out is full. After space is free, --resume continues from the checkpoint. Spark: {told}"
        )
    if BUSY_MARK in text:
        return StartAgainError(
            "Spark waits ten seconds at most for its Python to start, and this machine was too busy. Nothing is lost: "
            "start it again, with --resume if the broker still runs."
        )
    if RESTART_MARK in text:
        return StartAgainError(
            "Spark 4.1 has a fault: it fails once after it has repeated a micro-batch that was killed (SPARK-55271). "
            "Nothing is lost: --resume continues."
        )
    if not any(mark in text for mark in DATA_LOSS_MARKS):
        return RuntimeError(f"The query failed: {told}")
    return DataLossError(
        "Records that the checkpoint expects are not in Kafka: a topic was deleted (or deleted and created again), or "
        "its records were (retention, DeleteRecords). With --no-fail-on-data-loss, Spark's option failOnDataLoss, the "
        f"query continues with what is there. Spark: {told}"
    )


def shortened(text: str) -> str:
    """The beginning of Spark's message, without its stack and its plan."""
    line = " ".join(text.split("\n\tat ", maxsplit=1)[0].split("=== Streaming Query ===", maxsplit=1)[0].split())
    return line if len(line) <= LONGEST_CAUSE else f"{line[:LONGEST_CAUSE]}…"
