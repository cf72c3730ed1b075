"""Who leads what: the metadata store, the controller, partitions and their replicas."""
