"""At most once, at least once, exactly once: three small programs, described in `docs/original_clients.md`."""
