"""Real clients and a broker in one process: ``kafkapy.testing`` as its users use it."""
