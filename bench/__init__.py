"""kafkapy and Apache Kafka side by side: what the same work costs each broker in processor time and memory."""
