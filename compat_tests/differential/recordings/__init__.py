"""What real clients and Apache Kafka 2.7.2 said to each other, kept as frames."""
