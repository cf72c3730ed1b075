"""Files, descriptors, locks, disk errors and worker processes: the operating system's door."""
