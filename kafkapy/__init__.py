"""kafkapy: a Kafka broker in Python, wire- and file-compatible with Apache Kafka 2.7."""

__version__ = "0.1.0"
