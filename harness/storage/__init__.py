"""Batches, partitions and readers of Kafka's files that tests and compat_tests use."""
