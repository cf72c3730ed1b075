"""kafkapy and Apache Kafka side by side: the processor time and memory of each broker for the same work."""
