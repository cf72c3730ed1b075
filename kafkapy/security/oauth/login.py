"""Where a client gets its tokens: it makes unsecured ones, or reads one from a file as Apache Kafka's clients do."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from kafkapy.clock import Clock
from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.security.oauth.exchange import TOKEN
from kafkapy.security.oauth.unsecured import UnsecuredLogin

HANDLER: Final = "sasl.login.callback.handler.class"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  # the name of a key
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
        url = urlsplit(values.get(TOKEN_URL, ""))
        if url.scheme != "file" or url.netloc not in ("", "localhost"):
            raise InvalidSecurityError(f"{TOKEN_URL} is no file URL: kafkapy reads its token from a file")
        return Login(lambda: read_token(Path(unquote(url.path))), {})
    if handler and handler != UNSECURED_HANDLER:
        raise InvalidSecurityError(
            f"{HANDLER} is {handler}: kafkapy can't load Java classes, it has {FILE_HANDLERS[0]}"
        )
    login = UnsecuredLogin(options, clock.now_ms)
    return Login(login.new_token, login.extensions)


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
