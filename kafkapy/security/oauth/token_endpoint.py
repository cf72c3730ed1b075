"""Tokens of an issuer's server, by the grant of client credentials (RFC 6749, section 4.4), as in Apache Kafka.

The options ``clientId``, ``clientSecret`` and ``scope`` of the login module go to the address of
``sasl.oauthbearer.token.endpoint.url``; the answer is a JSON object with an ``access_token``.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote_plus

from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.security.oauth.addresses import Address, AddressNotReadError, Form
from kafkapy.security.oauth.exchange import TOKEN
from kafkapy.security.oauth.tokens import TokenRefusedError, parse_object

_ID, _SECRET, _SCOPE = "clientId", "clientSecret", "scope"


class TokenEndpoint:
    """Asks an address for tokens; raises InvalidSecurityError if an option is missing."""

    def __init__(self, address: Address, options: Mapping[str, str], machine_s: Callable[[], float]) -> None:
        self._address = address
        self._machine_s = machine_s
        missing = [name for name in (_ID, _SECRET) if not options.get(name, "").strip()]
        if missing:
            raise InvalidSecurityError(
                f"the login module of OAUTHBEARER has no {missing[0]}, which the token endpoint needs"
            )
        self._form: Final = _form(options[_ID].strip(), options[_SECRET].strip(), options.get(_SCOPE, "").strip())

    def new_token(self) -> str:
        """Return a token for one connection, in a thread; raises AuthenticationFailedError, which has nothing of it."""
        try:
            answer = parse_object(self._address.read(self._machine_s, self._form))
        except (AddressNotReadError, TokenRefusedError) as error:
            raise AuthenticationFailedError(f"no token was read from the token endpoint: {error}") from None
        token = str(answer.get("access_token", "")).strip()
        if not TOKEN.fullmatch(token):
            raise AuthenticationFailedError("the answer of the token endpoint has no access_token")
        return token


def _form(client_id: str, client_secret: str, scope: str) -> Form:
    """Return the request; as Apache Kafka's clients do by default, the credentials are not percent-encoded."""
    credentials = b64encode(f"{client_id}:{client_secret}".encode()).decode()
    headers = {
        "Authorization": f"Basic {credentials}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
        "Cache-Control": "no-cache",
    }
    return Form("grant_type=client_credentials" + (f"&scope={quote_plus(scope)}" if scope else ""), headers)
