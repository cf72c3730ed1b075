"""The broker: how a request is served, a handler for each API, and the life of the process."""
