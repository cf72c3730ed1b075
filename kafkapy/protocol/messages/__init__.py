"""One generated module per API."""
