"""HTTP/1.1 for small requests: bytes of a connection → ``HttpRequest`` → a handler → ``HttpResponse`` → bytes.

``messages`` has the types that a handler uses, ``exchange`` a connection's requests and responses without I/O (h11
parses and writes them), ``server`` the port and its connections, ``origin`` the refusal of web pages. A broker that
serves no HTTP imports none of these.
"""
