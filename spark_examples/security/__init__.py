"""Finds crawlers in the request trace of a broker, and writes a block list into a compacted topic."""
