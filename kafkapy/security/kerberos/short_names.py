"""Names of Kerberos clients in short, by ``sasl.kerberos.principal.to.local.rules`` as Apache Kafka reads them.

DEFAULT                                   alice@DEFAULT.REALM → alice
RULE:[COMPONENTS:FORMAT](REGEX)s/FROM/TO/gL
    FORMAT has $0 for the realm and $1, $2 for the components; REGEX, which has to match all of it, ``s/…/…/``,
    ``g`` (each occurrence), and ``L`` or ``U`` (lower, upper case) may be missing
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.text import printable, shortened

KEY: Final = "sasl.kerberos.principal.to.local.rules"
_LONGEST_SHOWN: Final = 300
"""Characters of a principal in an error."""
_PRINCIPAL: Final = re.compile("([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"DEFAULT|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?", re.ASCII
)
_PARAMETER: Final = re.compile(r"\$(\d*)", re.ASCII)
_REPLACEMENT: Final = re.compile(r"\\(.)|\$(\d+)|([\\$])", re.ASCII | re.DOTALL)


class _ShortNameRule(NamedTuple):
    """A rule of the list; ``components`` is None for DEFAULT."""

    components: int | None
    form: str = ""
    match: "re.Pattern[str] | None" = None
    substituted: "re.Pattern[str] | None" = None
    replacement: str = ""
    is_repeated: bool = False
    case: str = ""


class ShortNames:
    """The list of rules, with the realm of DEFAULT; raises InvalidSecurityError for a rule that can't be read."""

    def __init__(self, rules: str, default_realm: str) -> None:
        self._rules = [_parse(rule.strip()) for rule in (rules or "DEFAULT").split(",")]
        self._default_realm = default_realm

    def name_of(self, principal: str) -> str:
        """Return the name by the first rule that applies; raises AuthenticationFailedError."""
        match = _PRINCIPAL.fullmatch(principal)
        if match is None and "@" in principal:
            raise _refused(principal)
        if match is None:
            return principal
        service, host, realm = match.groups()
        parameters = [realm, service] if host is None else [realm, service, host]
        for rule in self._rules:
            try:
                name = self._applied(rule, parameters)
            except ValueError:
                raise _refused(principal) from None
            if name is not None:
                return name
        raise _refused(principal)

    def _applied(self, rule: _ShortNameRule, parameters: list[str]) -> str | None:
        """Return the name by one rule, None if it does not apply; raises ValueError if it makes no simple name."""
        if rule.components is None:
            name = parameters[1] if parameters[0] == self._default_realm else None
        elif rule.components == len(parameters) - 1:
            name = _mapped(rule, parameters)
        else:
            name = None
        if name is None:
            return None
        if "/" in name or "@" in name:
            raise ValueError("the name is not a simple one")
        return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name


def _refused(principal: str) -> AuthenticationFailedError:
    shown = printable(shortened(principal, _LONGEST_SHOWN))
    return AuthenticationFailedError(f"no rule of {KEY} applies to {shown}")


def _parse(text: str) -> _ShortNameRule:
    match = _RULE.fullmatch(text)
    if match is None or match[1] == "":
        raise InvalidSecurityError(f"{KEY} has the rule {text!r}, which is not DEFAULT or RULE:[COMPONENTS:FORMAT]...")
    components, form, wanted, substituted, replacement, repeated, case = match.groups()
    if components is None:
        return _ShortNameRule(None)
    try:
        match_pattern, from_pattern = (
            None if each is None else re.compile(each, re.ASCII) for each in (wanted, substituted)
        )
    except re.error as error:
        raise InvalidSecurityError(f"{KEY} has a pattern that can't be used: {error}") from None
    return _ShortNameRule(
        int(components), form, match_pattern, from_pattern, replacement or "", repeated is not None, case or ""
    )


def _mapped(rule: _ShortNameRule, parameters: list[str]) -> str | None:
    """Return the name that a RULE makes, None if its pattern does not match."""

    def parameter(found: "re.Match[str]") -> str:
        at = int(found[1])  # ValueError for a $ without a number
        if at >= len(parameters):
            raise ValueError("there is no such component")
        return parameters[at]

    base = _PARAMETER.sub(parameter, rule.form)
    if rule.match is not None and rule.match.fullmatch(base) is None:
        return None
    if rule.substituted is None:
        return base
    return rule.substituted.sub(_java_replacement(rule.replacement), base, count=0 if rule.is_repeated else 1)


def _java_replacement(text: str) -> "Callable[[re.Match[str]], str]":
    """Return what ``replaceAll`` of Java makes of its argument: ``\\x`` is x, ``$12`` group 12, or group 1 and a 2.

    The function raises ValueError where Java throws an exception.
    """

    def replace(match: "re.Match[str]") -> str:
        return _REPLACEMENT.sub(lambda found: expanded(match, found), text)

    def expanded(match: "re.Match[str]", found: "re.Match[str]") -> str:
        escaped, digits, wrong = found.groups()
        if wrong is not None:
            raise ValueError("a $ without a number, or a backslash at the end")
        if escaped is not None:
            return str(escaped)
        size = 1
        while size < len(digits) and int(digits[: size + 1]) <= match.re.groups:
            size += 1
        number = int(digits[:size])
        if number > match.re.groups:
            raise ValueError("there is no such group")
        return (match[number] or "") + str(digits[size:])

    return replace
