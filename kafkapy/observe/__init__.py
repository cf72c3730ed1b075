"""Observing a running broker: the trace of its requests."""
