"""What a running broker shows of its work."""
