"""The codec against others: Kafka's own generated classes, kafka-python and kio."""
