"""Clients that need nothing of kafkapy but its protocol: what the command line uses, with any Kafka broker."""
