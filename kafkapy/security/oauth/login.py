"""Where a client gets its tokens: it makes unsecured ones, or reads them from a file or from a server of the issuer.

A broker's settings have ``kafkapy.sasl.oauthbearer.allowed.urls`` too, which has to name the address.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from kafkapy.clock import Clock
from kafkapy.config.oauth_keys import TOKEN_URL
from kafkapy.config.own_keys import OAUTH_ALLOWED_URLS
from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.security.oauth.exchange import TOKEN
from kafkapy.security.oauth.unsecured import UnsecuredLogin

HANDLER: Final = "sasl.login.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_HANDLER: Final = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
FILE_HANDLERS: Final = (
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
)
"""The names that Apache Kafka 4 and 3 have for the same class."""
_SIZE_LIMIT: Final = 65_536


class Login(NamedTuple):
    """What a client sends."""

    new_token: Callable[[], str]
    """Returns a token for one connection; raises AuthenticationFailedError."""
    extensions: Mapping[str, str]


def make_login(values: Mapping[str, str], options: Mapping[str, str], clock: Clock) -> Login:
    """Return the login of a client's properties and of the options of its module; raises InvalidSecurityError."""
    handler = values.get(HANDLER)
    if handler in FILE_HANDLERS:
        return _login_by_address(values, options, clock)
    if handler and handler != UNSECURED_HANDLER:
        raise InvalidSecurityError(
            f"{HANDLER} is {handler}: kafkapy can't load Java classes, it has {FILE_HANDLERS[0]}"
        )
    login = UnsecuredLogin(options, clock.now_ms)
    return Login(login.new_token, login.extensions)


def _login_by_address(values: Mapping[str, str], options: Mapping[str, str], clock: Clock) -> Login:
    from kafkapy.security.oauth.addresses import check_allowed, parse_address
    from kafkapy.security.oauth.token_endpoint import TokenEndpoint

    url = values.get(TOKEN_URL, "")
    if OAUTH_ALLOWED_URLS in values:
        check_allowed(TOKEN_URL, url, values[OAUTH_ALLOWED_URLS].split(","))
    address = parse_address(TOKEN_URL, url, options, clock.now_ms())
    if address.scheme == "file":
        return Login(lambda: read_token(Path(unquote(address.parts.path))), {})
    return Login(TokenEndpoint(address, options, clock.machine_s).new_token, {})


def read_token(path: Path) -> str:
    """Read the token of a file; raises AuthenticationFailedError, which has nothing of it."""
    try:
        with path.open("rb") as file:
            token = file.read(_SIZE_LIMIT).decode("ascii").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise AuthenticationFailedError(f"the token in {str(path)!r} can't be read: {reason}") from None
    if not TOKEN.fullmatch(token):
        raise AuthenticationFailedError(f"there is no token in {str(path)!r}")
    return token
