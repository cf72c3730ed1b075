"""Files, descriptors, locks, disk errors and worker processes: all calls of the operating system."""
