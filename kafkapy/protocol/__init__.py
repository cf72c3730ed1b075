"""Bytes to typed messages and back: no socket, file, clock or await."""
