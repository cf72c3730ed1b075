"""The brokers under test: the targets that the command line names, brokers of a test of its own, their topics."""
