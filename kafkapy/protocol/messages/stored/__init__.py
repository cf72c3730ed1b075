"""The records that brokers store in their own topics."""
