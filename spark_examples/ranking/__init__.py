"""Ranks the destinations of each airport and day, and writes the rankings into a topic."""
