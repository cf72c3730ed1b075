"""Connections, listeners, and the limits on what peers may send."""
