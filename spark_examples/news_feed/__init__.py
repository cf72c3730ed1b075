"""Joins ratings of films with a follower graph and with each other: a feed for each person."""
