"""Functions that several handlers share."""
