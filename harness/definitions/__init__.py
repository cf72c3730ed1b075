"""Kafka's message definitions as Python objects, for the code generator and the tests of its output."""
