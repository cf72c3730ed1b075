"""The ``kafkapy`` command."""
