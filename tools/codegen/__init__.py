"""Kafka's message definitions to `kafkapy/protocol`: run as `python -m tools.codegen [--check | --import-jars]`."""
