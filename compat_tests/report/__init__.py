"""The results of a run as tables and JSON, and docs/compatibility.md from them."""
