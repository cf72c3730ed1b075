"""What several handlers need."""
