"""Loads a topic in batches into Parquet or Apache Iceberg, each row exactly once."""
