"""Writes record batches to the disk and reads them, in the files of Apache Kafka."""
