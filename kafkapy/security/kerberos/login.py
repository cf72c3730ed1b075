"""Logins with the options of ``Krb5LoginModule``, and contexts of GSSAPI: the only module that uses python-gssapi.

com.sun.security.auth.module.Krb5LoginModule required
    useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" principal="kafka/broker.example.com@EXAMPLE.COM";

``useTicketCache=true`` is for clients: the tickets of ``kinit``, or those of the file ``ticketCache``. Other options
have no effect: ``storeKey`` is about how Java keeps the key. The library reads ``/etc/krb5.conf``, or the file that
the environment variable KRB5_CONFIG names.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import gssapi
from gssapi.raw.misc import GSSError

from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.kerberos.exchange import Context, ContextError
from kafkapy.security.mechanisms import GSSAPI

SERVICE_NAME: Final = "sasl.kerberos.service.name"
_SERVICE_OPTION: Final = "serviceName"
_Store = dict[bytes | str, bytes | str]
"""Where the library finds keys and tickets."""


def service_name(values: Mapping[str, str], options: Mapping[str, str], key: str) -> str:
    """Return the name of the brokers' service, by the key or by the option of the login module that ``key`` has."""
    names = {values.get(SERVICE_NAME) or "", options.get(_SERVICE_OPTION, "")} - {""}
    if len(names) > 1:
        raise InvalidSecurityError(f"{SERVICE_NAME} and {_SERVICE_OPTION} of {key} differ: set one of them")
    if not names:
        raise InvalidSecurityError(f"{SERVICE_NAME} is not set: it is kafka for brokers with kafka/HOST as principal")
    return names.pop()


def acceptor(options: Mapping[str, str], key: str) -> Callable[[], Context]:
    """Return what begins the server's side of a context, with the keytab of a login module's options."""
    store, principal = _keytab(options, key, "keytab")
    try:
        credentials = gssapi.Credentials(name=principal, usage="accept", mechs=[gssapi.MechType.kerberos], store=store)
    except GSSError as error:
        raise InvalidSecurityError(
            f"{key} has a keytab that can't be used for its principal: {_reason(error)}"
        ) from None
    return lambda: _GssapiContext(lambda: gssapi.SecurityContext(creds=credentials, usage="accept"))


def initiator(service: str, options: Mapping[str, str], key: str) -> Callable[[str], Context]:
    """Return what begins the client's side of a context with the broker on a host.

    The first step may wait for the realm's KDC. A ticket that has ended is replaced by the next context.
    """
    store: _Store
    principal: gssapi.Name | None
    if options.get("useKeyTab", "").lower() == "true":
        store, principal = _keytab(options, key, "client_keytab")
        store["ccache"] = f"MEMORY:{uuid4().hex}"  # else the tickets would replace those of the user's kinit
    elif options.get("useTicketCache", "").lower() == "true":
        cache, name = options.get("ticketCache"), options.get("principal")
        store, principal = {"ccache": cache} if cache else {}, _principal(name, key) if name else None
    else:
        raise InvalidSecurityError(f"{key} has neither useKeyTab=true nor useTicketCache=true, and {GSSAPI} needs one")

    def context(host: str) -> "gssapi.SecurityContext":
        mech = gssapi.MechType.kerberos
        credentials = gssapi.Credentials(name=principal, usage="initiate", mechs=[mech], store=store or None)
        target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        return gssapi.SecurityContext(name=target, creds=credentials, mech=mech, usage="initiate")

    return lambda host: _GssapiContext(lambda: context(host))


def default_realm() -> str:
    """Return the realm of principals without one; empty if there is none."""
    try:
        name = gssapi.Name("x", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except GSSError:
        return ""
    return str(name).partition("@")[2]


def _keytab(options: Mapping[str, str], key: str, kind: str) -> tuple[_Store, gssapi.Name]:
    """Return the store with the keytab of a login module, and its principal."""
    if options.get("useKeyTab", "").lower() != "true":
        raise InvalidSecurityError(f"{key} has no useKeyTab=true, which {GSSAPI} needs")
    for name in ("keyTab", "principal"):
        if not options.get(name):
            raise InvalidSecurityError(f"{key} has no {name}, which {GSSAPI} needs")
    path = options["keyTab"].removeprefix("file:").removeprefix("FILE:")
    if not os.access(path, os.R_OK):
        raise InvalidSecurityError(f"{key} has the keyTab {path!r}, which can't be read")
    principal = _principal(options["principal"], key)
    return {kind: f"FILE:{path}"}, principal


def _principal(text: str, key: str) -> gssapi.Name:
    try:
        return gssapi.Name(text, gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except GSSError as error:
        raise InvalidSecurityError(f"{key} has a principal that can't be used: {_reason(error)}") from None


class _GssapiContext:
    """A context of python-gssapi as a ``Context``; ``make`` is called at the first step, as it may wait for the KDC."""

    def __init__(self, make: "Callable[[], gssapi.SecurityContext]") -> None:
        self._make = make
        self._made: gssapi.SecurityContext | None = None
        self.is_complete = False

    @property
    def client(self) -> str:
        """See ``Context``."""
        return str(self._context.initiator_name)

    def step(self, token: bytes) -> bytes:
        """See ``Context``."""
        with _context_errors():
            answer: bytes = self._context.step(token or None) or b""
            self.is_complete = self._context.complete  # raises the error, if the answer is about one
        return answer

    def wrap(self, message: bytes) -> bytes:
        """See ``Context``."""
        with _context_errors():
            return bytes(self._context.wrap(message, encrypt=False).message)

    def unwrap(self, message: bytes) -> bytes:
        """See ``Context``."""
        with _context_errors():
            return bytes(self._context.unwrap(message).message)

    @property
    def _context(self) -> "gssapi.SecurityContext":
        if self._made is None:
            self._made = self._make()
        return self._made


@contextmanager
def _context_errors() -> Iterator[None]:
    try:
        yield
    except GSSError as error:
        raise ContextError(_reason(error)) from None


def _reason(error: GSSError) -> str:
    """Return the mechanism's reason, which says more than the general one, if there is one."""
    is_general = not error.min_code
    return ". ".join(error.get_all_statuses(error.maj_code if is_general else error.min_code, is_general))
