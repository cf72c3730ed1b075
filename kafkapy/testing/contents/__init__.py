"""What a running broker keeps: its topics, records and groups, read for assertions, and its metadata tree."""
