"""Harmful requests to a running broker: it keeps running, serves other clients, and its bounds hold."""
