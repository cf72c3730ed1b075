"""A broker or a cluster on an event loop of this process, and what its blocking and its async form share."""
