"""The server's side of DIGEST-MD5 as a ZooKeeper has it, written from RFC 2831."""

import hashlib
import re

REALM, NONCE, URI = b"zk-sasl-md5", b"a-nonce-of-the-server", b"zookeeper/zk-sasl-md5"
CHALLENGE = b'realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess' % (REALM, NONCE)


def _hex(data: bytes) -> bytes:
    return hashlib.md5(data).hexdigest().encode()


def _proof(user: bytes, password: bytes, cnonce: bytes, method: bytes) -> bytes:
    secret = hashlib.md5(b":".join((user, REALM, password))).digest()
    a1 = b":".join((secret, NONCE, cnonce))
    a2 = method + b":" + URI
    return _hex(b":".join((_hex(a1), NONCE, b"00000001", cnonce, b"auth", _hex(a2))))


def answer(token: bytes, user: str, password: str) -> bytes | None:
    """The server's answer to a token of a client; None if the client does not know the password."""
    if not token:
        return CHALLENGE
    found = dict(re.findall(rb'([a-z-]+)="?([^",]*)"?', token))
    cnonce = found[b"cnonce"]
    if found[b"username"] != user.encode():
        return None
    if found[b"response"] != _proof(user.encode(), password.encode(), cnonce, b"AUTHENTICATE"):
        return None
    return b"rspauth=" + _proof(user.encode(), password.encode(), cnonce, b"")
