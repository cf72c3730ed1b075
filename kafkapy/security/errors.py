"""The errors of security settings and of authentication. No text of an error has a secret in it."""

from typing import Final

EXTRA: Final = "pip install 'kafkapy-broker[security]'"


class InvalidSecurityError(ValueError):
    """A setting of TLS or SASL can't be used; the sentence names the key, and never a secret."""


class AuthenticationFailedError(Exception):
    """The peer has not proved who it is; the text is sent to it, and tells nothing that it does not know."""


def needs_oauth_extra(key: str) -> InvalidSecurityError:
    """The error for a setting of signed tokens without the package that checks them."""
    problem = f"{key} needs the package joserfc, which is not installed: pip install 'kafkapy-broker[oauth]'"
    return InvalidSecurityError(problem)


def needs_gssapi_extra(key: str, error: ImportError) -> InvalidSecurityError:
    """The error for a setting that names GSSAPI without the package for it, or without the system's library."""
    problem = f"{key} names GSSAPI, which needs the package gssapi: pip install 'kafkapy-broker[gssapi]' ({error})"
    return InvalidSecurityError(problem)


def needs_extra(key: str) -> InvalidSecurityError:
    """The error for a setting that needs a package which is not installed."""
    return InvalidSecurityError(f"{key} needs the package cryptography, which is not installed: {EXTRA}")
