"""The consumer protocol of KIP-848: the broker assigns the partitions."""
