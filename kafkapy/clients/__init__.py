"""Clients for any Kafka broker: the command line's, and those of Kafka's original design for users.

Of kafkapy they import only ``protocol``, ``records`` and the clock.
"""
