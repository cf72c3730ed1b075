"""The broker keys of SASL/OAUTHBEARER with signed tokens: Apache Kafka has them from release 3.1 on (KIP-768)."""

from typing import Final

from kafkapy.config.keys import AtLeast, ConfigKey, ConfigType, Importance

TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  # the name of a key
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
JWKS_REFRESH_MS: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
EXPECTED_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
EXPECTED_ISSUER: Final = "sasl.oauthbearer.expected.issuer"
CLOCK_SKEW_S: Final = "sasl.oauthbearer.clock.skew.seconds"
SCOPE_CLAIM: Final = "sasl.oauthbearer.scope.claim.name"
SUB_CLAIM: Final = "sasl.oauthbearer.sub.claim.name"

_LOW: Final = Importance.LOW

OAUTH_KEYS: Final[dict[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey(TOKEN_URL, ConfigType.STRING, None),
        ConfigKey(JWKS_URL, ConfigType.STRING, None),
        ConfigKey(JWKS_REFRESH_MS, ConfigType.LONG, 3_600_000, AtLeast(1), importance=_LOW),
        ConfigKey(EXPECTED_AUDIENCE, ConfigType.LIST, (), importance=_LOW),
        ConfigKey(EXPECTED_ISSUER, ConfigType.STRING, None, importance=_LOW),
        ConfigKey(CLOCK_SKEW_S, ConfigType.INT, 30, AtLeast(0), importance=_LOW),
        ConfigKey(SCOPE_CLAIM, ConfigType.STRING, "scope", importance=_LOW),
        ConfigKey(SUB_CLAIM, ConfigType.STRING, "sub", importance=_LOW),
    )
}
"""They may also be set for one listener, and for the mechanism of one: ``listener.name.<l>.oauthbearer.sasl.…``."""

OAUTH_DOCUMENTATION: Final[dict[str, str]] = {
    TOKEN_URL: (
        "Where the broker gets the tokens with which it logs in to other brokers: an https or file URL, which "
        "kafkapy.sasl.oauthbearer.allowed.urls has to name too."
    ),
    JWKS_URL: (
        "Where the keys of the issuer of tokens are, a JSON Web Key Set: an https or file URL, which "
        "kafkapy.sasl.oauthbearer.allowed.urls has to name too."
    ),
    JWKS_REFRESH_MS: "How long the issuer's keys are used before they are read again, in milliseconds.",
    EXPECTED_AUDIENCE: "Audiences of which a token has to name one. Without a value a token must have no audience.",
    EXPECTED_ISSUER: "The issuer that a token has to name. Without a value the issuer is not checked.",
    CLOCK_SKEW_S: "By how many seconds the clocks of broker and issuer may differ when a token's times are checked.",
    SCOPE_CLAIM: "Name of the claim with the scope of a token.",
    SUB_CLAIM: "Name of the claim with the name of the client.",
}
"""The description of each key."""
