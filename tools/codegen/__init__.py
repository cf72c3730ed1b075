"""Generates `kafkapy/protocol` from Kafka's message definitions; `__main__.py` is the command."""
