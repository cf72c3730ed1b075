"""Kafka's broker and topic configuration keys."""
