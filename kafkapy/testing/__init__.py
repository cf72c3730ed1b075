"""Tools for tests, ours and other people's: in-process brokers, a controllable clock, faults."""
