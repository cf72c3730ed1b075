"""The broker composed, started, kept and stopped."""
