"""Looking into a data directory's files without serving from them: for `kafkapy log`, and for tests."""
