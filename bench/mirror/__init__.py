"""The cost of mirrors, beside MirrorMaker 2."""
