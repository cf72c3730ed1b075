"""The control port: faults, pauses, restarts and the clock over HTTP, for tests in any language."""
