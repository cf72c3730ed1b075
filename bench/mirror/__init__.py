"""What mirrors cost, beside MirrorMaker 2."""
