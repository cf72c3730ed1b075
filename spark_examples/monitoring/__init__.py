"""Watches airports: hourly delays and silences by event time, alerts back into Kafka, history into Parquet."""
