"""Limits of what clients take: their rates, and how long a client that exceeds one has to wait."""
