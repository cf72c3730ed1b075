"""The classic consumer group protocol."""
