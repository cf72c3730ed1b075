import ast
from pathlib import Path

import pytest

import kafkapy
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.server.dispatch.api_table import Api, Permission
from kafkapy.server.handlers import REGISTRY, served_api, served_apis


@pytest.mark.parametrize("name", ["FindCoordinator", "FIND_COORDINATOR", "find_coordinator", "findcoordinator"])
def test_an_api_is_found_in_any_spelling(name: str) -> None:
    assert served_api(name) == 10


def test_apis_between_brokers_are_not_served_to_clients() -> None:
    assert served_api("UpdateMetadata") is None
    assert served_apis()["Produce"] == 0


WITHOUT_PERMISSION = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}
"""What Apache Kafka 2.7 serves without asking its authorizer: to log in, to learn the versions, for own tokens."""


@pytest.mark.parametrize("api", REGISTRY.values(), ids=lambda api: api.module)
def test_every_api_names_the_permissions_that_it_needs(api: Api) -> None:
    assert (api.permissions == ()) == (api.key in WITHOUT_PERMISSION)
    if api.between_brokers:
        assert api.permissions == (Permission(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER),)


def test_nothing_calls_a_handler_beside_the_request_path() -> None:
    """So a rule for all requests, which stands there, holds for each of them."""
    root = Path(kafkapy.__file__).parent
    callers = {
        str(path.relative_to(root))
        for path in (root / "server").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "route.handle"
    }
    assert callers == {"server/dispatch/routes.py"}
