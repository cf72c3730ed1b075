"""The conversations of real clients with Apache Kafka 2.7.2, kept as frames."""
