"""The real data sets that the demonstrations stream in."""
