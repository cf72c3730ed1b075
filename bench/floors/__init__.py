"""Servers of the least that a row can cost: they answer and do nothing else."""
