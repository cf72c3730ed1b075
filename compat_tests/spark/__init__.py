"""Spark, batch and streaming."""
