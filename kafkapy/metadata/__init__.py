"""The cluster's metadata: the store and its implementations, Kafka's tree of nodes, and the image that brokers keep."""
