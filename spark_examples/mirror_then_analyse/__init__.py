"""Mirrors a topic of transactions to a second broker and runs the same query on both sides."""
