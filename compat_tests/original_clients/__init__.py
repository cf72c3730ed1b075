"""The clients of Kafka's original design beside the original ones."""
