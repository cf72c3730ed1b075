"""The validator of a listener's OAUTHBEARER, chosen by ``sasl.server.callback.handler.class`` as in Apache Kafka."""

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.clock import Clock
from kafkapy.config import oauth_keys
from kafkapy.security.errors import InvalidSecurityError, needs_extra
from kafkapy.security.oauth.tokens import Validate
from kafkapy.security.oauth.unsecured import UnsecuredRules, UnsecuredValidator

if TYPE_CHECKING:
    from kafkapy.security.oauth.keys import IssuerKeys

logger: Final = logging.getLogger(__name__)

HANDLER: Final = "sasl.server.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_HANDLER: Final = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
SIGNED_HANDLERS: Final = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
"""The names that Apache Kafka 4 and 3 have for the same class."""


class OAuthSettings(NamedTuple):
    """What a listener's configuration has about OAUTHBEARER."""

    values: Mapping[str, str]
    """``OAUTH_KEYS`` and the handler's class as texts; missing ones are empty."""
    options: Mapping[str, str]
    """Those of the login module."""
    allowed_urls: Collection[str]


class Validator(NamedTuple):
    """The function that checks tokens, and what ends with the broker."""

    validate: Validate
    keys: "IssuerKeys | None" = None


def make_validator(settings: OAuthSettings, clock: Clock) -> Validator:
    """Return the validator, which reads its keys from now on; raises InvalidSecurityError."""
    handler = settings.values[HANDLER]
    if handler in SIGNED_HANDLERS:
        return _signed(settings, clock)
    if handler not in ("", UNSECURED_HANDLER):
        raise InvalidSecurityError(
            f"{HANDLER} is {handler}: kafkapy can't load Java classes, for OAUTHBEARER it has {SIGNED_HANDLERS[0]} and"
            f" {UNSECURED_HANDLER}"
        )
    if settings.values[oauth_keys.JWKS_URL]:
        raise InvalidSecurityError(
            f"{oauth_keys.JWKS_URL} is set without {HANDLER}={SIGNED_HANDLERS[0]}: tokens would need no signature"
        )
    logger.warning("OAUTHBEARER accepts tokens without a signature, which anyone can write: it is for tests alone")
    return Validator(UnsecuredValidator(UnsecuredRules.of_options(settings.options), clock.now_ms))


def _signed(settings: OAuthSettings, clock: Clock) -> Validator:
    try:
        from kafkapy.security.oauth import addresses, keys, signed
    except ImportError:
        raise needs_extra(HANDLER, "joserfc", "oauth") from None
    values = settings.values
    url = values[oauth_keys.JWKS_URL]
    if not url:
        raise InvalidSecurityError(f"{oauth_keys.JWKS_URL} is not set: {HANDLER} needs it")
    addresses.check_allowed(oauth_keys.JWKS_URL, url, settings.allowed_urls)
    address = addresses.parse_address(oauth_keys.JWKS_URL, url, settings.options, clock.now_ms())
    if address.scheme == "http":
        logger.warning("The keys of tokens are read by http: others on the network can put their own in their place")
    rules = signed.SignedRules(
        frozenset(each for each in values[oauth_keys.EXPECTED_AUDIENCE].split(",") if each),
        values[oauth_keys.EXPECTED_ISSUER],
        int(values[oauth_keys.CLOCK_SKEW_S]),
        values[oauth_keys.SUB_CLAIM] or "sub",
        values[oauth_keys.SCOPE_CLAIM] or "scope",
    )
    found = keys.IssuerKeys(address, int(values[oauth_keys.JWKS_REFRESH_MS]), clock)
    found.start()
    return Validator(signed.SignedValidator(rules, found, clock.now_ms), found)
