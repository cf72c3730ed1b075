"""A server of HTTP on loopback, with or without TLS."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server:
    """An HTTP server on loopback: each path has its status and content."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.pages: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        self.forms: list[tuple[str, str | None]] = []
        """Content and credentials of each POST."""
        self.may_answer = threading.Event()
        self.may_answer.set()


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            found.may_answer.wait()
            status, content = found.pages[self.path]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", content.decode())
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"])).decode()
            found.forms.append((content, self.headers["Authorization"]))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base has this name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Server(f"http{'s' if context else ''}://127.0.0.1:{server.server_port}")
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
