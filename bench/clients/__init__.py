"""The processes that put a load on a broker: each prints one line of JSON at its end."""
