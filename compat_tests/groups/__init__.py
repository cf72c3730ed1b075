"""Group requests, ordinary and odd, sent as raw frames: real Kafka and kafkapy must answer alike."""
