"""The issuer's addresses: which of them a broker may read, and how one is read within bounds.

A broker reads an address only if ``kafkapy.sasl.oauthbearer.allowed.urls`` has it too: who could choose it freely would
read files of the broker's machine, or reach servers that only the broker can reach (CVE-2025-27817). For the same
reason no redirection is followed.

A server shows a certificate, by default of one of the system's authorities. The login module has the keys of another
trust store among its options, as in Apache Kafka: ``ssl.truststore.location="/etc/kafka/ca.pem"``; and those of a key
store if the server asks for a certificate.
"""

import ssl
from collections.abc import Callable, Collection, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from kafkapy.config.own_keys import OAUTH_ALLOWED_URLS
from kafkapy.security.errors import InvalidSecurityError

SIZE_LIMIT: Final = 262_144
"""Bytes of an answer."""
TIME_LIMIT_S: Final = 10.0


class AddressNotReadError(Exception):
    """An address can't be read; the text says why, and has nothing of what was sent or received."""


class Form(NamedTuple):
    """The request to an address."""

    content: str
    headers: Mapping[str, str]

    def __repr__(self) -> str:
        return "<a form>"


class Address(NamedTuple):
    """An address that may be read."""

    parts: SplitResult
    tls: ssl.SSLContext | None = None
    """Of https alone."""

    @property
    def scheme(self) -> str:
        """The scheme: file, http or https."""
        return self.parts.scheme

    def read(self, machine_s: Callable[[], float], form: Form | None = None) -> bytes:
        """Read what is there, or the answer to a form; in a thread if it is not a file. Raises AddressNotReadError."""
        try:
            if self.scheme == "file":
                with Path(unquote(self.parts.path)).open("rb") as file:
                    data = file.read(SIZE_LIMIT + 1)
            else:
                data = self._download(machine_s, form)
        except (OSError, HTTPException) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            raise AddressNotReadError(reason) from None
        if len(data) > SIZE_LIMIT:
            raise AddressNotReadError(f"it has more than {SIZE_LIMIT} bytes")
        return data

    def _download(self, machine_s: Callable[[], float], form: Form | None) -> bytes:
        deadline_s = machine_s() + TIME_LIMIT_S
        connection = self._connection()
        path = (self.parts.path or "/") + (f"?{self.parts.query}" if self.parts.query else "")
        try:
            if form is None:
                connection.request("GET", path)
            else:
                connection.request("POST", path, form.content, form.headers)
            response = connection.getresponse()
            if response.status != 200:
                raise AddressNotReadError(f"the server answered with status {response.status}")
            data = b""
            while len(data) <= SIZE_LIMIT and (piece := response.read1(SIZE_LIMIT)):
                data += piece
                if machine_s() > deadline_s:
                    raise AddressNotReadError(f"it took longer than {TIME_LIMIT_S:.0f} s")
            return data
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        host, port = str(self.parts.hostname), self.parts.port
        if self.tls is None:
            return HTTPConnection(host, port, timeout=TIME_LIMIT_S)
        return HTTPSConnection(host, port, timeout=TIME_LIMIT_S, context=self.tls)


def check_allowed(key: str, url: str, allowed: Collection[str]) -> None:
    """Raise InvalidSecurityError if a broker may not read the URL that ``key`` has."""
    if url not in allowed:
        raise InvalidSecurityError(
            f"{key} is an address that {OAUTH_ALLOWED_URLS} does not have: add it there if the broker may read it"
            " (CVE-2025-27817)"
        )


def parse_address(key: str, url: str, options: Mapping[str, str], now_ms: int) -> Address:
    """Return the address that ``key`` has, with the trust store of the login module's options.

    Raises InvalidSecurityError.
    """
    try:
        parts = urlsplit(url)
        is_valid = _is_valid(parts)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidSecurityError(f"{key} is no https, http or file URL")
    return Address(parts, _tls_context(options, now_ms) if parts.scheme == "https" else None)


def _is_valid(parts: SplitResult) -> bool:
    if parts.scheme == "file":
        return parts.netloc in ("", "localhost") and parts.path.startswith("/")
    has_port = parts.port is None or parts.port > 0
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port and "@" not in parts.netloc


def _tls_context(options: Mapping[str, str], now_ms: int) -> ssl.SSLContext:
    from kafkapy.security.tls import client_context

    # Java's client of https checks the name of the host, whatever this option is.
    texts = {**options, "ssl.endpoint.identification.algorithm": "https"}
    try:
        return client_context(texts, now_ms)
    except InvalidSecurityError as error:
        raise InvalidSecurityError(f"the login module of OAUTHBEARER: {error}") from None
