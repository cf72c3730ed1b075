"""Runs the snippets of the pages for users as they are printed."""
