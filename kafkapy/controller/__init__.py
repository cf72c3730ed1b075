"""The controller: election, events, states of partitions and replicas, assignment, topics, requests to brokers."""
