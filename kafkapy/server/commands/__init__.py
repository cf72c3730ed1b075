"""The commands of ``kafkapy``, one module each; ``start`` loads none of what the others need."""
