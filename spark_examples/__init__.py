"""Pipelines that run on a broker, Spark and nothing else: one per file, each with its expected output."""
