"""One file per API; REGISTRY is the feature list."""
