"""Record-batch bytes to records and back: pure functions over bytes."""
