"""SCRAM credentials of users: list, set and remove (KIP-554). A password is never sent: the salted one is."""

import secrets
from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import check
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkapy.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from kafkapy.security.scram import salted_password

MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
DEFAULT_ITERATIONS: Final = 8192
_NAMES: Final = {number: name for name, number in MECHANISMS.items()}
_SALT_SIZE: Final = 32


class Credential(NamedTuple):
    """A credential, as brokers show it."""

    user: str
    mechanism: str
    iterations: int


def list_users(client: ClusterClient, names: Iterable[str] = ()) -> list[Credential]:
    """The credentials of these users, or of all; raises RequestFailedError, also for a user without credentials."""
    request = DescribeUserScramCredentialsRequest([UserName(name) for name in names] or None)
    answer = client.controller().call(request, DescribeUserScramCredentialsResponse)
    check(answer.error_code, answer.error_message)
    found: list[Credential] = []
    for result in answer.results:
        check(result.error_code, result.error_message, what=f"user {result.user}")
        named = ((_NAMES.get(each.mechanism, str(each.mechanism)), each.iterations) for each in result.credential_infos)
        found += [Credential(result.user, mechanism, iterations) for mechanism, iterations in named]
    return sorted(found)


def set_password(
    client: ClusterClient, name: str, password: str, mechanisms: Iterable[str], iterations: int = DEFAULT_ITERATIONS
) -> None:
    """Store credentials of a user for these mechanisms; raises RequestFailedError."""
    upsertions = []
    for mechanism in mechanisms:
        salt = secrets.token_bytes(_SALT_SIZE)
        salted = salted_password(mechanism, password, salt, iterations)
        upsertions.append(ScramCredentialUpsertion(name, MECHANISMS[mechanism], iterations, salt, salted))
    _alter(client, AlterUserScramCredentialsRequest([], upsertions), name)


def remove_user(client: ClusterClient, name: str) -> None:
    """Remove all credentials of a user; raises RequestFailedError, also if there are none."""
    found = {each.mechanism for each in list_users(client, [name])}
    deletions = [ScramCredentialDeletion(name, number) for each, number in MECHANISMS.items() if each in found]
    _alter(client, AlterUserScramCredentialsRequest(deletions, []), name)


def _alter(client: ClusterClient, request: AlterUserScramCredentialsRequest, name: str) -> None:
    def attempt() -> None:
        for result in client.controller().call(request, AlterUserScramCredentialsResponse).results:
            check(result.error_code, result.error_message, what=f"user {name}")

    client.retrying(attempt)
