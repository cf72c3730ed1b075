"""Joins ratings of films with a follower graph and with each other: a feed for each person.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 job.py --bootstrap localhost:9092

Recommendations come from a topic for each genre. The query subscribes to a pattern, so a genre may get its topic later.
A recommendation goes to the followers of its author: a join with a compacted topic that is read when the query starts,
the last record of each key. A follower's rating of the same film within 30 days goes back to the author as a reply: a
join of two streams. Records that are no events go unchanged into the topic of dead letters; their key is topic,
partition and offset, the header `reason` says why.

The result is exact, since the input is read with `read_committed`, and the watermark decides when the state of the join
of streams is dropped, not when its rows come out. A row that is later than the watermark allows is dropped without an
error: `numRowsDroppedByWatermark` must stay 0. The Kafka sink is at-least-once: a micro-batch that is repeated after a
crash writes its entries again. The key (receiver) with the headers `kind` and `id` names an entry: a reader that takes
each name once has each entry exactly once.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

FIELDS = {"user": "INT", "movie": "INT", "rating": "DOUBLE", "time_ms": "LONG", "title": "STRING"}
"""Of an event; all are needed."""
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    bootstrap: str
    posts: str = "news-posts-.*"
    ratings: str = "news-ratings"
    follows: str = "news-follows"
    feed: str = "news-feed"
    dead_letters: str = "news-dead-letters"
    checkpoint: str = "checkpoints/news_feed"
    starting_offsets: str = "earliest"
    fail_on_data_loss: bool = True
    reply_days: int = 30
    watermark: str = "180 days"
    every: str | None = None
    kafka_option: Sequence[str] = ()
    """KEY=VALUE of Kafka's clients, such as security.protocol=SSL."""

    @property
    def kafka(self) -> dict[str, str]:
        """The settings with which Spark connects to Kafka."""
        own = (each.partition("=") for each in self.kafka_option)
        return {"kafka.bootstrap.servers": self.bootstrap} | {f"kafka.{key}": value for key, _, value in own}


def read(spark: SparkSession, options: Options, how: str, what: str) -> DataFrame:
    """The committed records of topics as a stream: their JSON as `event`, or the `reason` why they are no events."""
    source = (
        spark.readStream.format("kafka")
        .options(**options.kafka)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", 50)  # a reader waits so long behind the last transaction of each partition
        .option(how, what)
        .option("startingOffsets", options.starting_offsets)
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
    )
    corrupt = {"columnNameOfCorruptRecord": "malformed"}
    event = f.from_json(f.col("value").cast("string"), f"{SCHEMA}, malformed STRING", corrupt)
    malformed = f.col("event").isNull() | f.col("event.malformed").isNotNull()
    incomplete = f.greatest(*(f.col(f"event.{name}").isNull() for name in FIELDS))
    reason = f.when(malformed, "not JSON").when(incomplete, "incomplete")
    return source.load().withColumn("event", event).withColumn("reason", reason)


def events(records: DataFrame, watermark: str) -> DataFrame:
    """The events, with their time."""
    time = f.timestamp_millis("event.time_ms").alias("time")
    return records.where("reason IS NULL").select("event.*", time).withWatermark("time", watermark)


def read_follows(spark: SparkSession, options: Options) -> DataFrame:
    """Pairs of user and follower, read once; the value of a record are those whom its key follows, null for none."""
    source = spark.read.format("kafka").options(**options.kafka)
    records = source.option("subscribe", options.follows).load()
    last = records.groupBy("key").agg(f.max_by("value", "offset").alias("value")).where("value IS NOT NULL")
    users = f.explode(f.from_json(f.col("value").cast("string"), "ARRAY<INT>")).alias("user")
    return last.select(users, f.col("key").cast("string").cast("int").alias("follower")).persist()


def entries(follows: DataFrame, posts: DataFrame, ratings: DataFrame, reply_days: int) -> DataFrame:
    """What goes into the feed: recommendations to followers, and replies to authors."""
    aimed = posts.join(f.broadcast(follows), "user").alias("post")
    recommendations = aimed.select(
        f.lit("recommendation").alias("kind"),
        f.col("follower").alias("to"),
        f.col("user").alias("author"),
        *("movie", "title", "rating", "time_ms"),
        f.lit(None).cast("long").alias("after_ms"),
    )
    same = "answer.user = post.follower AND answer.movie = post.movie"
    after = f"answer.time > post.time AND answer.time <= post.time + INTERVAL {reply_days} DAYS"
    replies = aimed.join(ratings.alias("answer"), f.expr(f"{same} AND {after}")).select(
        f.lit("reply").alias("kind"),
        f.col("post.user").alias("to"),
        f.col("answer.user").alias("author"),
        *("post.movie", "post.title", "answer.rating", "answer.time_ms"),
        (f.col("answer.time_ms") - f.col("post.time_ms")).alias("after_ms"),
    )
    return recommendations.unionByName(replies)


def header(key: str, value: Column) -> Column:
    """A header as the Kafka sink takes it."""
    return f.struct(f.lit(key).alias("key"), value.cast("binary").alias("value"))


def feed_records(rows: DataFrame, topic: str) -> DataFrame:
    """Entries as records of the feed, keyed by receiver."""
    return rows.select(
        f.lit(topic).alias("topic"),
        f.col("to").cast("string").cast("binary").alias("key"),
        f.to_json(f.struct(*rows.columns)).cast("binary").alias("value"),
        f.array(header("kind", f.col("kind")), header("id", f.concat_ws("/", "author", "movie"))).alias("headers"),
    )


def letters(records: DataFrame, topic: str) -> DataFrame:
    """The records that are no events, for the topic of dead letters."""
    place = f.concat_ws("/", "topic", "partition", "offset").cast("binary").alias("key")
    why = f.array(header("reason", f.col("reason"))).alias("headers")
    return records.where("reason IS NOT NULL").select(f.lit(topic).alias("topic"), place, "value", why)


def start(spark: SparkSession, options: Options) -> StreamingQuery:
    """Starts the query; it ends when it has processed what the topics hold now, or runs on with the option `every`."""
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", False)  # an inner join emits nothing in them
    posts = read(spark, options, "subscribePattern", options.posts)
    ratings = read(spark, options, "subscribe", options.ratings)
    posted, rated = events(posts, options.watermark), events(ratings, options.watermark)
    out = feed_records(entries(read_follows(spark, options), posted, rated, options.reply_days), options.feed)
    for records in (posts, ratings):
        out = out.unionByName(letters(records, options.dead_letters))
    sink = out.writeStream.queryName("news_feed").format("kafka").options(**options.kafka)
    sink = sink.option("checkpointLocation", options.checkpoint).outputMode("append")
    return (sink.trigger(processingTime=options.every) if options.every else sink.trigger(availableNow=True)).start()


def parsed() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    setting = "a setting of Kafka's clients, such as security.protocol=SSL; may be given again"
    parser.add_argument("--kafka-option", action="append", default=[], metavar="KEY=VALUE", help=setting)
    parser.add_argument("--posts", default=Options.posts, help="regular expression of the topics of recommendations")
    parser.add_argument("--ratings", default=Options.ratings, help="topic of ratings as JSON: " + SCHEMA)
    parser.add_argument("--follows", default=Options.follows, help="compacted topic: by user, a JSON array of users")
    parser.add_argument("--feed", default=Options.feed, help="topic of the result")
    parser.add_argument("--dead-letters", default=Options.dead_letters, help="topic of records that are no events")
    parser.add_argument("--checkpoint", default=Options.checkpoint)
    parser.add_argument("--starting-offsets", default=Options.starting_offsets, help="without a checkpoint")
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--reply-days", type=int, default=Options.reply_days, help="how late a reply may be")
    parser.add_argument("--watermark", default=Options.watermark, help="how late an event may come")
    parser.add_argument("--every", metavar="INTERVAL", help="run on, a micro-batch in each interval ('10 seconds')")
    return Options(**vars(parser.parse_args()))


if __name__ == "__main__":
    session = SparkSession.builder.appName("news_feed").getOrCreate()
    start(session, parsed()).awaitTermination()
