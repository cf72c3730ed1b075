"""Record batches to disk and back, in Apache Kafka's own files."""
