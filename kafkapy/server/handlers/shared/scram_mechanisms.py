"""The SCRAM mechanisms of the two APIs, and the credentials among a user's overrides."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kafkapy.security.scram import ScramCredential

MECHANISMS: Final = MappingProxyType({1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"})
"""Number in requests → name, which is also the key of the credential."""


def credential_of(overrides: Mapping[str, str], mechanism: str) -> ScramCredential | None:
    """Return the credential among a user's overrides; None if there is none, or none that can be read."""
    text = overrides.get(mechanism)
    if text is None:
        return None
    try:
        return ScramCredential.parse(text)
    except ValueError:
        return None
