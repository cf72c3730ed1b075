"""The errors of security settings and of authentication. No text of an error has a secret in it."""


class InvalidSecurityError(ValueError):
    """A setting of TLS or SASL can't be used; the sentence names the key, and never a secret."""


class AuthenticationFailedError(Exception):
    """The peer has not proved who it is; the text is sent to it, and tells nothing that it does not know."""


def needs_extra(key: str, package: str = "cryptography", extra: str = "security") -> InvalidSecurityError:
    """The error for a setting that needs a package which is not installed."""
    problem = f"{key} needs the package {package}, which is not installed: pip install 'kafkapy-broker[{extra}]'"
    return InvalidSecurityError(problem)


def needs_gssapi_extra(key: str, error: ImportError) -> InvalidSecurityError:
    """The error for a setting that names GSSAPI without the package for it, or without the system's library."""
    problem = f"{key} names GSSAPI, which needs the package gssapi: pip install 'kafkapy-broker[gssapi]' ({error})"
    return InvalidSecurityError(problem)


def connection_failure(error: OSError) -> str:
    """Return why a connection, or its TLS handshake, has failed, in the words of OpenSSL or of the system."""
    return str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error.strerror or error)
