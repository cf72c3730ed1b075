"""The event loop of a test's broker: its thread, calls to it from other threads, waits with a time-out."""
