"""The command line's clients for any Kafka broker; of kafkapy they import only ``protocol``."""
