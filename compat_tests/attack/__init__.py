"""Requests that are made to do harm, sent to a running broker: it stays up, serves others, and its bounds hold."""
