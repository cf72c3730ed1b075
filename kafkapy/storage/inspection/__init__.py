"""Inspects the files of a data directory without serving them: for `kafkapy log` and for tests."""
