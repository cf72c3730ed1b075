"""The contents of a running broker: its topics, records and groups, read for assertions, and its metadata tree."""
