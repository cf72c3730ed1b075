"""The path of every request: obtain, admit, handle, encode."""
