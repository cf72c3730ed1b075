"""Flags late flights within milliseconds: Spark's real-time mode beside the same job in micro-batches."""
