"""The partitions and replicas that this broker holds."""
