"""The same tests against kafkapy and against real Kafka."""
