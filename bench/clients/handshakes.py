"""Connections that are authenticated, asked for one thing, and closed.

`python -m bench.clients.handshakes '{"port": …, "connections": …, "authority": PEM or "", "mechanism": …}'` opens one
after the other: TLS with an authority, SASL with a mechanism, and `user` and `password`. Its last line of output is a
JSON object.
"""

import json
import socket
import ssl
import struct
import sys

from bench.clients.raw import connect, frame
from harness.process import HOST
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.protocol.primitives import Reader
from kafkapy.security.client import client_tokens

ANSWER_AT = 4
"""After the correlation id."""


def receive(connection: socket.socket) -> bytes:
    """One response without its size; a TLS connection cannot wait for all of it as `raw.receive` does."""
    with connection.makefile("rb", buffering=0) as stream:
        (size,) = struct.unpack(">i", stream.read(4) or b"")
        return stream.read(size) or b""


def log_in(connection: socket.socket, mechanism: str, user: str, password: str) -> None:
    """Authenticate as a user by PLAIN or SCRAM; ends the program if the broker refuses."""
    connection.sendall(frame(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism), 1))
    receive(connection)
    steps = client_tokens(mechanism, {"username": user, "password": password})("")
    token = next(steps)
    while True:
        connection.sendall(frame(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(token), 0))
        answer = SaslAuthenticateResponse.read(Reader(receive(connection)[ANSWER_AT:]), 0)
        if answer.error_code:
            raise SystemExit(f"the broker refuses {user}: {answer.error_message}")
        try:
            token = steps.send(bytes(answer.auth_bytes))
        except StopIteration:
            return


def open_and_close(
    port: int, authority: str = "", mechanism: str = "", user: str = "", password: str = "", connections: int = 1
) -> dict[str, float]:
    """Open so many connections; each has one request answered."""
    context = ssl.create_default_context(cadata=authority) if authority else None
    request = frame(ApiKey.API_VERSIONS, ApiVersionsRequest(), 0)
    for _ in range(connections):
        plain = connect(port)
        with plain if context is None else context.wrap_socket(plain, server_hostname=HOST) as connection:
            if mechanism:
                log_in(connection, mechanism, user, password)
            connection.sendall(request)
            receive(connection)
    return {"connections": connections}


if __name__ == "__main__":
    print(json.dumps(open_and_close(**json.loads(sys.argv[1]))))
