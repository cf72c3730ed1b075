"""The trace: every request and its answer, decoded, one line each (``kafkapy start --trace``)."""
